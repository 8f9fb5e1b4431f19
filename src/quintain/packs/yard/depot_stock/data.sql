INSERT INTO items VALUES (1, 'GL-40', 'gloves, size 40', 10, 'none'), (2, 'GL-04', 'gloves, children', 12, 'none'), (3, 'TP-50', 'tape, 50 m', 6, 'none'), (4, 'TP-05', 'tape, 5 m', 24, 'none'), (5, 'SP-1', 'spirit, 1 l', 8, 'flammable'), (6, 'BX-S', 'box, small', 25, 'none'), (7, 'BX-L', 'box, large', 20, 'none'), (8, 'YG-1', 'yoghurt culture', 4, 'none');
INSERT INTO bins VALUES ('A1', 'dry', 200, 0), ('A2', 'dry', 120, 0), ('A3', 'dry', 60, 0), ('B1', 'dry', 300, 0), ('B2', 'dry', 100, 0), ('F1', 'fire', 80, 1), ('F2', 'fire', 40, 1), ('K1', 'cold', 90, 0), ('K2', 'cold', 90, 0), ('Z9', 'returns', 999, 1);
INSERT INTO stock VALUES (1, 1, 'A1', 90, ''), (2, 2, 'A1', 60, ''), (3, 3, 'A2', 48, ''), (4, 4, 'A2', 36, ''), (5, 5, 'F1', 32, ''), (6, 6, 'B1', 150, ''), (7, 7, 'B2', 60, '');
INSERT INTO rules VALUES ('storing', 'Ask the foreman.');
INSERT INTO rules VALUES ('picking', 'Ask the foreman.');
INSERT INTO rules VALUES ('expiry', 'Ask the foreman.');
