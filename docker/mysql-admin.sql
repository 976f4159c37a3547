-- The administrator that tests use.
GRANT ALL ON *.* TO 'headwater'@'%' WITH GRANT OPTION;
