// Package follow tells handlers of every result of every check: those with
// stream.results: all, such as one in front of a data lake.
//
// The journal is the queue. A Follower reads it from its own cursor, makes one line of JSON
// of each result (line.go), and writes the lines to a pool of TCP connections, those of one
// event always to the same. Nothing waits for a follower: one whose peer hangs or is away
// lags, and goes on from its cursor. The cursor is up to where all lines were taken by
// connections Settle ago, so that a broken connection, or a kill of the server, makes what was
// written since then come again: at least once.
//
// The journal is not cut beyond the cursors (Set.Consumers), up to Share of its budget. A
// follower that lags by more passes over the oldest results, and counts them.
//
// Goroutines: Set.Run's, which keeps the list of followers as it is declared and saves their
// cursors; one per follower; one per connection, which waits for its end. Locks: Set's, which
// guards the list; a Follower's, which guards what others are shown of it. Neither is held while
// something is read or written.
//
// Start reading at set.go, then follower.go (the loop), reader.go (the journal), line.go
// (the bytes), pool.go (the connections).
package follow
