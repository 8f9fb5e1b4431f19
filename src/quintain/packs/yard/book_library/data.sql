INSERT INTO members VALUES (1, 'Adela', 'Mill Lane', 'valid', 3), (2, 'Adela', 'Mill Road', 'valid', 3), (3, 'Benno', 'Quay', 'valid', 3), (4, 'Clio', 'Quay', 'expired', 3), (5, 'Dorian', 'Hill', 'valid', 2), (6, 'Edda', 'Hill', 'valid', 5);
INSERT INTO titles VALUES (1, 'The Salt Road', 1, 'A1'), (2, 'The Salt Road', 2, 'A2'), (3, 'Lanterns', 1, 'B1'), (4, 'A Field of Wrens', 1, 'B2'), (5, 'The Slow Clock', 1, 'C1'), (6, 'The Slow Lock', 1, 'C2'), (7, 'Nine Bridges', 1, 'C3'), (8, 'Tin and Amber', 1, 'D1');
INSERT INTO copies VALUES (11, 1, 'in'), (12, 2, 'in'), (13, 3, 'in'), (14, 4, 'in'), (15, 5, 'in'), (16, 6, 'in'), (17, 7, 'in'), (18, 8, 'in'), (21, 1, 'in'), (23, 3, 'in'), (25, 5, 'in');
INSERT INTO rules VALUES ('renewal', 'A loan is renewed for 14 days from its due day, twice at most, and not while another member has a hold on the title.');
INSERT INTO rules VALUES ('fines', 'Late books cost 20 cents a day.');
INSERT INTO rules VALUES ('moving', 'Ask the head of the library.');
