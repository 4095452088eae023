-- A file of version 1 of the tables, as releases wrote it before orders had search keys, with one order.
PRAGMA application_id = 1414678849;
PRAGMA user_version = 1;
BEGIN;
CREATE TABLE IF NOT EXISTS order_state (
    Row INTEGER PRIMARY KEY, OrderID TEXT NOT NULL UNIQUE, Version, ProcessState, LockedBy, CompleteBy, FailureCount, Workflow, Priority, ReplyTopic, TraceParent, SubmittedAt, FinishedAt, Cause, CompensatedFor, Steps, Sequence, Outbox, Incidents, IncidentsDropped, Round, SetAside, Deadline, LateSince, Paused, Closed, WriteToken, DueShard, DueAt, Attention, AttentionAt, ExpiresAt, Checksum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS due ON order_state (DueShard, DueAt, OrderID, Workflow)
    WHERE DueShard IS NOT NULL;
CREATE INDEX IF NOT EXISTS attention ON order_state (Attention, AttentionAt, OrderID)
    WHERE Attention IS NOT NULL;
CREATE INDEX IF NOT EXISTS order_state_expiry ON order_state (ExpiresAt)
    WHERE ExpiresAt IS NOT NULL;
CREATE TABLE IF NOT EXISTS orders (
    OrderID TEXT NOT NULL UNIQUE, Details TEXT NOT NULL, Digest TEXT NOT NULL,
    ExpiresAt INTEGER, Checksum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS orders_expiry ON orders (ExpiresAt)
    WHERE ExpiresAt IS NOT NULL;
CREATE TABLE IF NOT EXISTS workflows (
    Name TEXT NOT NULL, Hash TEXT NOT NULL, Definition TEXT NOT NULL,
    PublishedAt INTEGER NOT NULL, PRIMARY KEY (Name, Hash)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS current_workflows (
    Name TEXT NOT NULL PRIMARY KEY, Hash TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS control (
    Key TEXT NOT NULL PRIMARY KEY, Version INTEGER NOT NULL, Value TEXT NOT NULL,
    WriteToken INTEGER NOT NULL, ExpiresAt INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS control_expiry ON control (ExpiresAt)
    WHERE ExpiresAt IS NOT NULL;
COMMIT;
INSERT INTO order_state (OrderID, Version, ProcessState, LockedBy, CompleteBy, FailureCount, Workflow, Priority, ReplyTopic, TraceParent, SubmittedAt, FinishedAt, Cause, CompensatedFor, Steps, Sequence, Outbox, Incidents, IncidentsDropped, Round, SetAside, Deadline, LateSince, Paused, Closed, WriteToken, DueShard, DueAt, Attention, AttentionAt, ExpiresAt, Checksum)
VALUES ('old', 1, 'Pending', NULL, NULL, 0, 'w@de1dc3d44e4902a9', NULL, NULL, NULL, 1, NULL, NULL, NULL, '[{"step":"a","state":"waiting"}]', 1, '{"writer":"submission","entries":[]}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 4, 5000, NULL, NULL, NULL, 1811580899);
INSERT INTO orders (OrderID, Details, Digest, ExpiresAt, Checksum)
VALUES ('old', '{"n":1}', 'd', NULL, 3779743205);
