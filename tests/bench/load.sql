-- Tables are filled on the server: the same rows on every run, and no client to wait for.
DROP DATABASE IF EXISTS headwater_bench;
CREATE DATABASE headwater_bench CHARACTER SET utf8mb4;
USE headwater_bench;

CREATE TABLE numbers (n INT PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s;

DELIMITER //

-- Runs an INSERT ... SELECT of rows n + 1 to n + count (its two parameters) until there are `total`, `batch` rows in a
-- transaction.
CREATE PROCEDURE fill (text LONGTEXT, total INT, batch INT)
BEGIN
  DECLARE done, inside INT DEFAULT 0;
  SET @text = text;
  PREPARE statement FROM @text;
  START TRANSACTION;
  WHILE done < total DO
    SET @before = done, @count = LEAST(1000, total - done);
    EXECUTE statement USING @before, @count;
    SET done = done + @count, inside = inside + @count;
    IF inside >= batch THEN
      COMMIT;
      START TRANSACTION;
      SET inside = 0;
    END IF;
  END WHILE;
  COMMIT;
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

-- Deletes rows of `deletes`, ten at a time, all over the table.
CREATE PROCEDURE delete_rows (total INT, ids INT)
BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < total DO
    DELETE FROM deletes WHERE id BETWEEN 1 + MOD(i * 7919, ids) AND 10 + MOD(i * 7919, ids);
    SET i = i + 10;
  END WHILE;
END//

DELIMITER ;
