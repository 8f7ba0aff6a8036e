CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, ts REAL NOT NULL, run_id TEXT NOT NULL, node_key TEXT,
    kind TEXT NOT NULL, payload TEXT NOT NULL, causal_seq INTEGER);
CREATE INDEX IF NOT EXISTS events_of_run ON events(run_id, seq);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, status TEXT NOT NULL, problem_sha TEXT, parent_run_id TEXT, plan_sha TEXT,
    error TEXT, control TEXT, created_ts REAL NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (
    run_id TEXT NOT NULL REFERENCES runs, node_key TEXT NOT NULL, state TEXT NOT NULL, owner_session TEXT,
    depth INTEGER, parent_key TEXT, updated_ts REAL, PRIMARY KEY (run_id, node_key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    run_id TEXT NOT NULL, node_key TEXT NOT NULL, session TEXT, expires_ts REAL NOT NULL, fence INTEGER NOT NULL,
    PRIMARY KEY (run_id, node_key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs, to_node_key TEXT NOT NULL, sender TEXT NOT NULL,
    payload TEXT NOT NULL, payload_sha TEXT NOT NULL, delivered INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS messages_waiting ON messages(run_id, to_node_key, delivered);
CREATE TABLE IF NOT EXISTS usage (
    run_id TEXT PRIMARY KEY REFERENCES runs, tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,
    nodes INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, wall_seconds REAL NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS findings (
    run_id TEXT NOT NULL, finding_id TEXT NOT NULL, subject TEXT NOT NULL, criterion TEXT NOT NULL,
    evidence_ref TEXT NOT NULL, blocking INTEGER NOT NULL, disposition TEXT NOT NULL, rationale TEXT NOT NULL,
    created_ts REAL NOT NULL, PRIMARY KEY (run_id, finding_id)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS solution_cache (signature TEXT PRIMARY KEY, entry TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS summaries (
    summary_id TEXT PRIMARY KEY, doc_id TEXT NOT NULL, level INTEGER NOT NULL, text TEXT NOT NULL,
    children TEXT NOT NULL, spans TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chunks_meta (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, chunk_id TEXT NOT NULL, doc_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, sha TEXT NOT NULL, text TEXT NOT NULL,
    UNIQUE (run_id, chunk_id));
CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5(text);
