-- The tables. Each statement ends with a semicolon.
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, copies INTEGER NOT NULL);
CREATE TABLE loans (
    id INTEGER PRIMARY KEY,
    book_id INTEGER NOT NULL REFERENCES books (id),
    reader TEXT NOT NULL
);
