-- Statements as frameworks, tools and people write them; one a line. Lines that begin with two
-- dashes and a blank are left out. The tables come first.
CREATE TABLE users (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(255) NOT NULL, email VARCHAR(191), created_at TIMESTAMP NULL, PRIMARY KEY (id), UNIQUE KEY email (email)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci
CREATE TABLE t (id INT PRIMARY KEY, v INT)
-- The job starts here.
ALTER TABLE t ADD x INT
