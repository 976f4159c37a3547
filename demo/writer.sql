-- A shop at work, until demo.control says stop: orders come, change and go, keys change, money moves.
CREATE TABLE demo.control (stop BOOLEAN NOT NULL);
INSERT INTO demo.control VALUES (FALSE);

DELIMITER //
CREATE PROCEDURE demo.trade(customers BIGINT, accounts BIGINT)
BEGIN
  DECLARE c, o, a, b BIGINT;
  DECLARE x DECIMAL(10,2);
  DECLARE turn BIGINT DEFAULT 0;
  WHILE NOT (SELECT stop FROM demo.control LIMIT 1) DO
    SET turn = turn + 1, c = 1 + FLOOR(RAND() * customers), a = 1 + FLOOR(RAND() * accounts),
      b = 1 + FLOOR(RAND() * accounts), x = ROUND(RAND() * 50, 2);

    START TRANSACTION;
    IF turn % 2 THEN
      UPDATE shop.wallets SET balance = balance - x WHERE customer = a;
      UPDATE shop.savings SET balance = balance + x WHERE customer = b;
    ELSE
      UPDATE shop.savings SET balance = balance - x WHERE customer = a;
      UPDATE shop.wallets SET balance = balance + x WHERE customer = b;
    END IF;
    COMMIT;

    START TRANSACTION;
    INSERT INTO shop.orders (customer, placed, state, total, remark) VALUES (c, NOW(3), 'new', x, CONCAT('live 🛒 ', turn));
    SET o = LAST_INSERT_ID();
    INSERT INTO shop.order_items SELECT o, 1, sku, 1, price FROM shop.products WHERE category = 1 + turn % 50 LIMIT 1;
    INSERT INTO shop.payments VALUES (UUID(), o, x, NOW(3), UNHEX(SHA2(o, 256)));
    COMMIT;

    CASE turn % 6
      WHEN 0 THEN UPDATE shop.orders SET state = 'sent' WHERE id = o - 5;
      WHEN 1 THEN UPDATE shop.customers SET preferences = JSON_SET(COALESCE(preferences, '{}'), '$.seen', turn), vip = NOT vip WHERE id = c;
      WHEN 2 THEN DELETE FROM shop.reviews WHERE customer = c;
      WHEN 3 THEN REPLACE INTO shop.reviews SELECT c, sku, 1 + turn % 5, CONCAT('again 🔁 ', turn) FROM shop.products WHERE category = 1 + turn % 50 LIMIT 1;
      WHEN 4 THEN UPDATE shop.addresses SET kind = IF(kind = 'home', 'office', 'home') WHERE customer = c;
      ELSE UPDATE shop.stock SET quantity = quantity - 1, counted = CURRENT_DATE WHERE sku = (SELECT sku FROM shop.products WHERE category = 1 + turn % 50 LIMIT 1);
    END CASE;
    IF turn % 40 = 0 THEN
      START TRANSACTION;
      DELETE FROM shop.order_items WHERE order_id = o - 20;
      DELETE FROM shop.orders WHERE id = o - 20;
      COMMIT;
    END IF;
    DO SLEEP(0.003);
  END WHILE;
END//
DELIMITER ;
