-- The rows that every episode begins with. A task's `start` changes them.
INSERT INTO books VALUES (1, 'The Tide Tables', 2), (2, 'A Field of Rye', 2), (3, 'Low Bridges', 2);
INSERT INTO loans VALUES (1, 3, 'Zoe');
