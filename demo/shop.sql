-- A small shop: integer, composite and string keys, decimals, JSON, dates, text of four-byte characters.
-- @rows is set by run.sh. The numbers 1..n come from digits, which is quicker than a recursive query.

CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE DATABASE demo;
USE shop;

CREATE TABLE categories (
  id SMALLINT UNSIGNED PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  season ENUM('all year', 'summer', 'winter') NOT NULL
);
CREATE TABLE products (
  sku VARCHAR(24) PRIMARY KEY,
  category SMALLINT UNSIGNED NOT NULL,
  title VARCHAR(120) NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  weight FLOAT,
  attributes JSON,
  tags SET('new', 'sale', 'fragile'),
  KEY (category)
);
CREATE TABLE stock (
  sku VARCHAR(24),
  warehouse CHAR(3),
  quantity INT NOT NULL,
  counted DATE,
  PRIMARY KEY (sku, warehouse)
);
CREATE TABLE customers (
  id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT,
  email VARCHAR(120) NOT NULL,
  name VARCHAR(80),
  born DATE,
  vip BOOLEAN NOT NULL,
  created TIMESTAMP(6) NOT NULL,
  preferences JSON
);
CREATE TABLE addresses (
  customer BIGINT UNSIGNED,
  kind CHAR(8),
  street VARCHAR(120),
  city VARCHAR(60),
  country CHAR(2),
  PRIMARY KEY (customer, kind)
);
CREATE TABLE orders (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,
  customer BIGINT UNSIGNED NOT NULL,
  placed DATETIME(3) NOT NULL,
  state ENUM('new', 'paid', 'sent', 'returned') NOT NULL,
  total DECIMAL(12,2) NOT NULL,
  remark TEXT
);
CREATE TABLE order_items (
  order_id BIGINT,
  line SMALLINT,
  sku VARCHAR(24) NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE TABLE payments (
  reference CHAR(36) PRIMARY KEY,
  order_id BIGINT NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  paid TIMESTAMP(3) NOT NULL,
  receipt VARBINARY(32)
);
CREATE TABLE reviews (
  customer BIGINT UNSIGNED,
  sku VARCHAR(24),
  stars TINYINT NOT NULL,
  body TEXT,
  PRIMARY KEY (customer, sku)
);
-- Money moves between these two in one transaction; the sum over both never changes.
CREATE TABLE wallets (customer BIGINT UNSIGNED PRIMARY KEY, balance DECIMAL(14,2) NOT NULL);
CREATE TABLE savings (customer BIGINT UNSIGNED PRIMARY KEY, balance DECIMAL(14,2) NOT NULL);

CREATE TABLE demo.digit (d INT PRIMARY KEY);
INSERT INTO demo.digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE demo.n (i INT PRIMARY KEY);
INSERT INTO demo.n
  SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 100000 * f.d
  FROM demo.digit f, demo.digit e, demo.digit d, demo.digit c, demo.digit b, demo.digit a
  WHERE 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 100000 * f.d <= GREATEST(1000, @rows DIV 5);

INSERT INTO categories SELECT i, CONCAT('Category ', i), 1 + i % 3 FROM demo.n WHERE i <= 50;
INSERT INTO products
  SELECT CONCAT(ELT(1 + i % 3, 'BK', 'tea', 'Mug'), '-', LPAD(i, 8, '0')), 1 + i % 50,
    CONCAT(ELT(1 + i % 4, 'Buch ', 'Thé ', '茶 ', 'Кружка '), i), (i % 20000) / 100 + 0.99, i / 7,
    JSON_OBJECT('color', ELT(1 + i % 3, 'red', 'grün', '青'), 'sizes', JSON_ARRAY(i % 5, i % 7 / 2, NULL), 'organic', i % 2 = 0),
    i % 8
  FROM demo.n WHERE i <= @rows DIV 50;
INSERT INTO stock
  SELECT sku, w.d, CRC32(sku) % 1000, DATE_ADD('2024-01-01', INTERVAL CRC32(sku) % 600 DAY)
  FROM products, (SELECT 'BER' d UNION ALL SELECT 'NYC') w;
INSERT INTO customers
  SELECT i, CONCAT('user', i, '@example.org'), CONCAT(ELT(1 + i % 5, 'Ada ', 'Søren ', '花子 ', 'Жанна ', '🦊 '), i),
    IF(i % 9 = 0, NULL, DATE_ADD('1950-01-01', INTERVAL i % 20000 DAY)), i % 50 = 0,
    TIMESTAMP('2024-01-01') + INTERVAL i * 137 SECOND + INTERVAL i MICROSECOND,
    IF(i % 4 = 0, NULL, JSON_OBJECT('lang', ELT(1 + i % 3, 'de', 'en', 'ja'), 'mail', i % 2 = 0))
  FROM demo.n WHERE i <= @rows DIV 10;
INSERT INTO addresses
  SELECT i, 'home', CONCAT('Hauptstraße ', i % 300), ELT(1 + i % 4, 'Köln', 'Oslo', '大阪', 'Łódź'), ELT(1 + i % 4, 'DE', 'NO', 'JP', 'PL')
  FROM demo.n WHERE i <= @rows DIV 10;
INSERT INTO orders
  SELECT i, 1 + i % (@rows DIV 10), TIMESTAMP('2025-01-01') + INTERVAL i * 61 SECOND + INTERVAL i % 1000 * 1000 MICROSECOND,
    1 + i % 4, (i % 90000) / 100, IF(i % 6 = 0, CONCAT('leave it at the door 🚪 ', i), NULL)
  FROM demo.n WHERE i <= @rows DIV 5;
INSERT INTO order_items
  SELECT i, l.d, CONCAT(ELT(1 + (1 + i % (@rows DIV 50)) % 3, 'BK', 'tea', 'Mug'), '-', LPAD(1 + i % (@rows DIV 50), 8, '0')), 1 + i % 4, (i % 20000) / 100 + 0.99
  FROM demo.n, (SELECT 1 d UNION ALL SELECT 2) l WHERE i <= @rows DIV 5;
INSERT INTO payments
  SELECT CONCAT(HEX(CRC32(i)), '-', LPAD(i, 10, '0')), i, (i % 90000) / 100,
    TIMESTAMP('2025-01-01') + INTERVAL i * 61 SECOND + INTERVAL i % 1000 * 1000 MICROSECOND, UNHEX(SHA2(i, 256))
  FROM demo.n WHERE i <= @rows DIV 10;
INSERT INTO reviews
  SELECT i, CONCAT(ELT(1 + (1 + i % (@rows DIV 50)) % 3, 'BK', 'tea', 'Mug'), '-', LPAD(1 + i % (@rows DIV 50), 8, '0')), 1 + i % 5,
    CONCAT(REPEAT('⭐', 1 + i % 5), ' ', ELT(1 + i % 3, 'wunderbar 🎉', 'とても良い 👍🏽', 'meh 🤷'), ' #', i)
  FROM demo.n WHERE i <= @rows DIV 33;
INSERT INTO wallets SELECT i, 500 FROM demo.n WHERE i <= @rows DIV 200;
INSERT INTO savings SELECT i, 500 FROM demo.n WHERE i <= @rows DIV 200;

-- What Headwater needs; XA_RECOVER_ADMIN only lets it see open XA transactions.
CREATE USER 'headwater_job'@'%' IDENTIFIED BY 'demo-password';
GRANT SELECT ON shop.* TO 'headwater_job'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.* TO 'headwater_job'@'%';
