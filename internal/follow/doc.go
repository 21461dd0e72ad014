// Package follow sends every result of every check to handlers with stream.results: all, such as
// a data lake.
//
// The journal is the queue. A Follower reads it from its own cursor, encodes each result as one
// line of JSON (encode_json_lines.go), and writes the lines to a pool of TCP connections, all lines of one
// event to the same connection. Nothing waits for a follower: if its peer hangs or is away, the
// follower lags, and continues from its cursor. The cursor moves to a position when connections
// took all lines up to it Settle ago. So lines written since then come again after a broken
// connection or a kill of the server: at least once.
//
// The journal is not cut beyond the cursors (Set.Consumers), up to Share of its budget. A
// follower that lags further skips the oldest results, and counts them.
//
// Goroutines: Set.Run's, which starts and stops followers as handlers are declared and saves
// their cursors; one per follower; one per connection, which waits for its end. Locks: Set.mu
// guards the list, Follower.mu the state that State returns. Neither is held during a read or
// write.
//
// Start reading at reconcile_result_streams.go, then stream_results_to_handler.go (the loop), journal_result_reader.go (the journal), encode_json_lines.go
// (the bytes), connection_pool.go (the connections), cursor_file.go (the file of cursors).
package follow
