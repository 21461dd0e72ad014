package history

// schema has one step for each version of the tables. A table that grows at its end has only indexes that do the same;
// history_index finds the rows of a node and check, and history_node_bytes has the size of a node's rows
// (segmented_table.go). Long columns stand last: SQLite reads all pages of a long value to get at the columns behind it.
var schema = []string{`
	CREATE TABLE history_entries (
		id {id}, partition_no BIGINT NOT NULL, log BIGINT NOT NULL, number BIGINT NOT NULL, idx BIGINT NOT NULL,
		at BIGINT NOT NULL, executed BIGINT NOT NULL, kind {text} NOT NULL,
		namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL,
		source_kind BIGINT NOT NULL, source_id BIGINT NOT NULL, source_instance {text} NOT NULL, source_name {text} NOT NULL,
		status BIGINT NOT NULL, previous BIGINT NOT NULL, since BIGINT NOT NULL, output {text} NOT NULL, count BIGINT NOT NULL, expired BIGINT NOT NULL);
	CREATE INDEX history_entries_at ON history_entries (at);
	CREATE INDEX history_entries_marks ON history_entries (at) WHERE kind IN ('flapping', 'acknowledged');
	CREATE TABLE history_problems (
		no {id}, id {text} NOT NULL UNIQUE, namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL,
		source_kind BIGINT NOT NULL, source_id BIGINT NOT NULL, source_instance {text} NOT NULL, source_name {text} NOT NULL, definition BIGINT NOT NULL,
		status BIGINT NOT NULL, severity BIGINT NOT NULL, opened BIGINT NOT NULL, closed BIGINT NOT NULL, texts {text} NOT NULL, output {text} NOT NULL);
	CREATE INDEX history_problems_opened ON history_problems (opened, id);
	CREATE INDEX history_problems_open ON history_problems (opened, id) WHERE closed = 0;
	CREATE INDEX history_problems_closed ON history_problems (closed) WHERE closed > 0;
	CREATE TABLE history_segments (
		shelf {text} NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, begun BIGINT NOT NULL, ended BIGINT NOT NULL, PRIMARY KEY (shelf, last));
	CREATE TABLE history_index (
		shelf {text} NOT NULL, segment BIGINT NOT NULL, node_id BIGINT NOT NULL, source_name {text} NOT NULL, row_id BIGINT NOT NULL,
		PRIMARY KEY (shelf, segment, node_id, source_name, row_id)){clustered};
	CREATE TABLE history_names (
		namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL, last BIGINT NOT NULL, PRIMARY KEY (namespace, node, node_id)){clustered};
	CREATE INDEX history_names_last ON history_names (last);
	CREATE TABLE history_node_bytes (
		shelf {text} NOT NULL, segment BIGINT NOT NULL, node_id BIGINT NOT NULL, namespace {text} NOT NULL, bytes BIGINT NOT NULL,
		PRIMARY KEY (shelf, segment, node_id, namespace)){clustered};
	CREATE TABLE history_outbox (
		id {serial}, key {text} NOT NULL UNIQUE, problem {text} NOT NULL, namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL,
		handler_ns {text} NOT NULL, handler {text} NOT NULL, kind {text} NOT NULL,
		created BIGINT NOT NULL, state {text} NOT NULL, attempts BIGINT NOT NULL, next_at BIGINT NOT NULL,
		last_error {text} NOT NULL, ended BIGINT NOT NULL, replayed BIGINT NOT NULL DEFAULT 0,
		route {text} NOT NULL, tells {text} NOT NULL, problems BIGINT NOT NULL, answer {text} NOT NULL DEFAULT '', payload {blob} NOT NULL);
	CREATE INDEX history_outbox_problem ON history_outbox (problem, id);
	CREATE INDEX history_outbox_due ON history_outbox (next_at) WHERE state = 'pending';
	CREATE INDEX history_outbox_ended ON history_outbox (ended) WHERE ended > 0;
	CREATE INDEX history_outbox_dead ON history_outbox (handler_ns, handler, id) WHERE state = 'dead';
	CREATE INDEX history_outbox_shadow ON history_outbox (ended, id) WHERE state = 'shadow';
	CREATE TABLE history_escalations (
		problem {text} NOT NULL, route {text} NOT NULL, body {blob} NOT NULL, PRIMARY KEY (problem, route)){clustered};
	CREATE TABLE history_delivery_problems (key {text} NOT NULL, problem {text} NOT NULL, PRIMARY KEY (problem, key));
	CREATE INDEX history_delivery_problems_key ON history_delivery_problems (key);
	CREATE TABLE history_places (partition_no BIGINT PRIMARY KEY, log BIGINT NOT NULL, number BIGINT NOT NULL, idx BIGINT NOT NULL);
	CREATE TABLE history_pipeline_places (partition_no BIGINT PRIMARY KEY, log BIGINT NOT NULL, number BIGINT NOT NULL, idx BIGINT NOT NULL);
	CREATE TABLE history_rates (route {text} NOT NULL, shadow BIGINT NOT NULL, ends BIGINT NOT NULL, sent BIGINT NOT NULL, PRIMARY KEY (route, shadow));
	CREATE TABLE history_life (one BIGINT PRIMARY KEY, identity BIGINT NOT NULL, incarnation {text} NOT NULL, recorded BIGINT NOT NULL, quiet_until BIGINT NOT NULL);
`}

// singleRow writes the one row of the table history_life. A row that a damaged page lost is written anew, which makes
// the store another store.
const singleRow = `INSERT INTO history_life (one, identity, incarnation, recorded, quiet_until) VALUES (1, 0, '', 0, 0) ON CONFLICT DO NOTHING`
