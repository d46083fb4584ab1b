CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT, directory TEXT, parent TEXT, pinned INTEGER);
CREATE TABLE entries (id TEXT, chat TEXT, number INTEGER, author TEXT, time INTEGER, body TEXT, tokens_in INTEGER, tokens_out INTEGER);
INSERT INTO chats VALUES ('c1', 'Count the tests', '/home/mara/web', NULL, 1), ('c2', NULL, '/home/mara/web', 'c1', 0);
INSERT INTO entries VALUES
  ('e2', 'c1', 2, 'agent', 1772442002, '{"text":"I count them.","model":"quill-2","calls":[{"id":"k1","name":"shell","input":{"command":"cargo test"}}]}', 50, 8),
  ('e1', 'c1', 1, 'user', 1772442001, '{"text":"how many tests are there"}', NULL, NULL),
  ('e3', 'c1', 3, 'tool', 1772442003, '{"results":[{"id":"k1","output":"12 passed","status":"ok"}]}', NULL, NULL),
  ('e4', 'c2', 1, 'user', 1772442004, '{"text":"look into the slow one"}', NULL, NULL),
  ('e5', 'c2', 2, 'clock', 1772442005, '{"text":"tick"}', NULL, NULL);
