-- The table of sysbench, filled on the server: the same rows on every run, and no client to wait for.
DROP DATABASE IF EXISTS headwater_bench;
CREATE DATABASE headwater_bench CHARACTER SET utf8mb4;
USE headwater_bench;

CREATE TABLE sbtest1 (
  id INT NOT NULL AUTO_INCREMENT,
  k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id),
  KEY k_1 (k)
);
CREATE TABLE inserts LIKE sbtest1;
CREATE TABLE updates LIKE sbtest1;
CREATE TABLE ten LIKE sbtest1;

CREATE TABLE numbers (n INT PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s;

DELIMITER //

-- Inserts `total` rows, 1,000 in a transaction. c is ten groups of eleven digits and pad is five, as in sysbench; a
-- group is the id times a factor, modulo a prime.
CREATE PROCEDURE fill (name VARCHAR(64), total INT)
BEGIN
  DECLARE factors JSON DEFAULT '[61803398867, 31415926541, 27182818283, 14142135623, 17320508077, 22360679783,
    26457513107, 33166247909, 36055512757, 41231056261, 43588989439, 47958315233, 53851648073, 55677643631, 60827625307]';
  DECLARE c, pad TEXT DEFAULT '''-''';
  DECLARE i, done INT DEFAULT 0;
  WHILE i < 15 DO
    SET @part = CONCAT(', LPAD(MOD(id * ', JSON_EXTRACT(factors, CONCAT('$[', i, ']')), ', 99999999977), 11, ''0'')');
    IF i < 10 THEN SET c = CONCAT(c, @part); ELSE SET pad = CONCAT(pad, @part); END IF;
    SET i = i + 1;
  END WHILE;
  SET @text = CONCAT('INSERT INTO ', name, ' (id, k, c, pad) SELECT id, 1 + MOD(id * 6180339, ', total, '), CONCAT_WS(', c,
    '), CONCAT_WS(', pad, ') FROM (SELECT ? + n AS id FROM numbers WHERE n <= ? ORDER BY n) AS r');
  PREPARE statement FROM @text;
  WHILE done < total DO
    SET @before = done, @count = LEAST(1000, total - done);
    EXECUTE statement USING @before, @count;
    SET done = done + 1000;
  END WHILE;
  DEALLOCATE PREPARE statement;
END//

-- Updates single rows of `updates`, a transaction each, in an order that looks random.
CREATE PROCEDURE update_rows (total INT, ids INT)
BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < total DO
    UPDATE updates SET k = k + 1 WHERE id = 1 + MOD(i * 61803398867, ids);
    SET i = i + 1;
  END WHILE;
END//

DELIMITER ;
