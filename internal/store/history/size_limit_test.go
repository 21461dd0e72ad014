package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// withLimit runs a test on both databases, with a size limit and a number of rows per segment. The size is a number of
// rows. vacuum makes the pages of deleted rows free, as PostgreSQL's autovacuum does after a while.
func withLimit(t *testing.T, budget, segment int64, test func(t *testing.T, s *sqlStore, vacuum func())) {
	t.Helper()
	run := func(t *testing.T, dsn string, vacuum func()) {
		s := noError(open(t.Context(), dsn, segment, SizeLimit{Budget: budget}))
		defer s.Close()
		test(t, s.(*sqlStore), vacuum)
	}
	t.Run("sqlite", func(t *testing.T) { run(t, filepath.Join(t.TempDir(), "history.db"), func() {}) })
	t.Run("postgresql", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a server")
		}
		server := pgtest.Start(t)
		dsn := server.Database(t)
		run(t, dsn, func() { server.Exec(t, dsn, "VACUUM") })
	})
}

// fillHistory records, for one node, a problem with a long output that opens and closes every minute. The problem of
// the first minute stays open.
func fillHistory(t *testing.T, s Store, minutes int) {
	t.Helper()
	text := strings.Repeat("x", 200_000)
	for i := range minutes {
		p := problem(fmt.Sprintf("p%06d", i), "web01", i)
		p.Output = text
		b := Batch{Entries: []Entry{entry(uint64(i+1), i)}, Opened: []Problem{p}, Places: map[model.Partition]ChangePosition{1: testPosition(uint64(i+1), 0)}}
		requireNoError(t, s.Record(t.Context(), b))
		if i > 0 {
			p.Closed = minutesAfterNoon(i)
			requireNoError(t, s.Record(t.Context(), Batch{Closed: []Problem{p}}))
		}
	}
}

// requireNoError ends the test on an error.
func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHistoryStaysWithinSizeLimit fills history up to its size limit, and expects the oldest rows to be removed
// and counted. Open problems stay.
func TestHistoryStaysWithinSizeLimit(t *testing.T) {
	const budget = 8 << 20
	withLimit(t, budget, 16, func(t *testing.T, s *sqlStore, _ func()) {
		fillHistory(t, s, 200)
		use := s.CurrentUsage()
		if use.Bytes > budget+1<<20 || use.Budget != budget || use.DiskFull || use.Node != "default/web01" {
			t.Errorf("history uses %+v", use)
		}
		entries := noError(s.Entries(t.Context(), EntryQuery{}))
		problems := noError(s.Problems(t.Context(), ProblemQuery{}))
		if len(problems) < 20 || len(problems) > 60 || len(entries) < 10 || !entries[0].At.Equal(minutesAfterNoon(199)) {
			t.Errorf("%d entries, the newest at %s, %d problems", len(entries), entries[0].At, len(problems))
		}
		if oldest := entries[len(entries)-1].At; oldest.After(use.Latest.Add(2 * time.Minute)) {
			t.Errorf("the oldest entry is of %s, rows were removed up to %s", oldest, use.Latest)
		}
		if removed := uint64(400 - len(entries) - len(problems)); use.Evicted != removed {
			t.Errorf("%d rows are counted, %d are missing", use.Evicted, removed)
		}
		if p := noError(s.Problem(t.Context(), "p000000")); p.ID == "" || !p.Closed.IsZero() {
			t.Errorf("the open problem is %+v", p)
		}
		requireExactBytes(t, s)
	})
}

// requireExactBytes compares the recorded bytes of nodes in segments with the sum of their rows.
func requireExactBytes(t *testing.T, s *sqlStore) {
	t.Helper()
	for _, table := range s.room.tables {
		kept := noError(table.nodeBytes(t.Context(), s.db, allRows))
		real := noError(table.nodeBytes(t.Context(), s.db, `SELECT e.node_id, e.namespace, {bytes} AS bytes FROM {table} e`))
		equal(t, "bytes of nodes in "+table.table, kept, real)
		left := noError(sqldb.QueryValue[int](t.Context(), s.db, "index", `SELECT COUNT(*) FROM history_index WHERE shelf = ?`, table.table))
		rows := noError(sqldb.QueryValue[int](t.Context(), s.db, "rows", table.expandNames(`SELECT COUNT(*) FROM {table}`)))
		if left > rows {
			t.Errorf("the index of %s has %d rows, the table %d", table.table, left, rows)
		}
	}
}

// noisyBatch returns the history rows about one status change of a test node. They are a history entry, a closed
// problem and a delivered message.
func noisyBatch(number int, namespace, node string, id model.NodeID, output string) Batch {
	e := entry(uint64(number), number)
	p := problem(fmt.Sprintf("%s-%06d", node, number), node, number)
	d := delivery(p.ID, "opened", pager, number)
	d.State, d.Ended, d.Payload = Delivered, minutesAfterNoon(number), []byte(output)
	e.Namespace, e.Node, e.NodeID, e.Output = namespace, node, id, output[:min(len(output), MaxChangeOutput)]
	p.Namespace, p.Node, p.NodeID, p.Output, p.Closed = namespace, node, id, output, minutesAfterNoon(number)
	d.Namespace, d.Node, d.NodeID = namespace, node, id
	return Batch{Entries: []Entry{e}, Opened: []Problem{p}, Closed: []Problem{p}, Deliveries: []Delivery{d}, Places: map[model.Partition]ChangePosition{5: testPosition(uint64(number), 0)}}
}

// TestNoisyNodeRemovesNoOtherHistory fills history with the rows of one node, and expects all other nodes to keep their
// rows. The same holds for one namespace with many nodes. The rows of a quiet node and of a quiet namespace all stay,
// and neither the tables nor their indexes grow.
func TestNoisyNodeRemovesNoOtherHistory(t *testing.T) {
	const budget, quiet, rounds = 16 << 20, 40, 500
	withLimit(t, budget, 32, func(t *testing.T, s *sqlStore, vacuum func()) {
		number := 0
		record := func(namespace, node string, id model.NodeID, size int) {
			number++
			requireNoError(t, s.Record(t.Context(), noisyBatch(number, namespace, node, id, incompressibleText(size))))
		}
		for range quiet {
			record("default", "quiet", 1, 1000)
			record("apart", "alone", 2, 1000)
		}
		for i := range rounds {
			record("default", "noisy", 3, 100_000)
			record("many", fmt.Sprintf("noisy%02d", i%50), model.NodeID(100+i%50), 30_000)
			if i%10 == 0 { // after a sixth of the budget was written
				vacuum()
			}
			if i%50 == 0 {
				record("default", "quiet", 1, 1000)
				record("apart", "alone", 2, 1000)
			}
		}
		const want = quiet + rounds/50
		for _, node := range []string{"quiet", "alone"} {
			entries := noError(s.Entries(t.Context(), EntryQuery{Node: node, Limit: 1000}))
			problems := noError(s.Problems(t.Context(), ProblemQuery{Node: node, Limit: 1000}))
			messages := 0
			for _, p := range problems {
				messages += len(noError(s.Deliveries(t.Context(), p.ID)))
			}
			if len(entries) != want || len(problems) != want || messages != want {
				t.Errorf("%d of %d changes, %d problems and %d messages of node %s are left", len(entries), want, len(problems), messages, node)
			}
		}
		if left := len(noError(s.Entries(t.Context(), EntryQuery{Node: "noisy", Limit: 2000}))); left == 0 || left > rounds/2 {
			t.Errorf("%d changes of the noisy node are left", left)
		}
		use := s.CurrentUsage()
		if use.Bytes > budget+1<<20 || use.Evicted == 0 || !strings.Contains(use.Node, "/noisy") {
			t.Errorf("history uses %+v", use)
		}
		requireExactBytes(t, s)
		if disk := bytesOnDisk(t, s); disk > budget*3/2 {
			t.Errorf("history uses %d bytes on disk", disk)
		}
	})
}

// TestComputedSizeMatchesPostgreSQLDisk compares the computed size of rows with PostgreSQL's disk use, and
// expects similar numbers. Rows are short and long.
func TestComputedSizeMatchesPostgreSQLDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	for _, size := range []int{20, 1000, 100_000} {
		s := noError(open(t.Context(), server.Database(t), 1<<10, SizeLimit{Budget: 1 << 40})).(*sqlStore)
		for i := range min(10_000_000/(size+1000), 3000) {
			requireNoError(t, s.Record(t.Context(), noisyBatch(i+1, "default", "web01", 7, incompressibleText(size))))
		}
		counted := noError(s.room.countBytes(t.Context()))
		tables := bytesOnDisk(t, s)
		t.Logf("outputs of %d bytes: %d bytes are counted, the tables have %d", size, counted, tables)
		if tables > counted*5/4 || tables < counted/2 {
			t.Errorf("outputs of %d bytes: %d bytes are counted, the tables have %d", size, counted, tables)
		}
		requireNoError(t, s.Close())
	}
}

// bytesOnDisk returns the size of the SQLite file, or of PostgreSQL's tables with their indexes.
func bytesOnDisk(t *testing.T, s *sqlStore) int64 {
	t.Helper()
	if s.db.Dialect == sqldb.SQLite {
		file, _, err := s.db.FileSize(t.Context())
		requireNoError(t, err)
		return file
	}
	return noError(sqldb.QueryValue[int64](t.Context(), s.db, "size of the tables",
		`SELECT CAST(SUM(pg_total_relation_size(c.oid)) AS BIGINT) FROM pg_class c WHERE c.relkind = 'r' AND c.relname LIKE 'history_%'`))
}

// incompressibleText returns a test text that compression makes hardly shorter.
func incompressibleText(size int) string {
	text := make([]byte, size)
	state := uint64(size)
	for i := range text {
		state = state*6364136223846793005 + 1442695040888963407
		text[i] = '!' + byte(state>>57)%90
	}
	return string(text)
}

// TestWaitingMessagesAreEmptiedLast fills history, and expects waiting messages to be emptied only after the removal of
// other rows.
func TestWaitingMessagesAreEmptiedLast(t *testing.T) {
	const budget = 8 << 20
	withLimit(t, budget, 16, func(t *testing.T, s *sqlStore, _ func()) {
		for i := range 100 {
			d := delivery(fmt.Sprint("p", i), "opened", pager, i)
			d.Payload = bytes.Repeat([]byte("x"), 200_000)
			requireNoError(t, s.Record(t.Context(), Batch{Entries: []Entry{entry(uint64(i+1), i)}, Deliveries: []Delivery{d}, Places: map[model.Partition]ChangePosition{1: testPosition(uint64(i+1), 0)}}))
		}
		due, _, err := s.Due(t.Context(), minutesAfterNoon(200), 1000, nil)
		requireNoError(t, err)
		dropped := slices.IndexFunc(due, func(d Delivery) bool { return len(d.Payload) > 0 })
		if use := s.CurrentUsage(); use.Bytes > budget+1<<20 || len(due) != 100 || dropped < 50 || dropped == 100 || slices.ContainsFunc(due[dropped:], func(d Delivery) bool { return len(d.Payload) == 0 }) {
			t.Errorf("%d messages wait, the first %d without payload; history uses %+v", len(due), dropped, use)
		}
		requireExactBytes(t, s)
	})
}

// TestRepairRecountsBytesOfNodes damages and repairs the file, and expects the recorded bytes of nodes to equal their
// rows.
func TestRepairRecountsBytesOfNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	s := noError(open(t.Context(), path, 16, SizeLimit{})).(*sqlStore)
	for i := range 400 {
		requireNoError(t, s.Record(t.Context(), noisyBatch(i+1, "default", fmt.Sprint("web", i%3), model.NodeID(i%3+1), "full")))
	}
	requireNoError(t, s.Close())
	data := noError(os.ReadFile(path))
	clear(data[len(data)/4 : len(data)/2])
	requireNoError(t, os.WriteFile(path, data, 0o600))
	losses := noError(Repair(t.Context(), path))
	s = noError(open(t.Context(), path, 16, SizeLimit{})).(*sqlStore)
	defer s.Close()
	if left := noError(sqldb.QueryValue[int](t.Context(), s.db, "rows", `SELECT COUNT(*) FROM history_entries`)); len(losses) == 0 || left == 400 {
		t.Errorf("losses %q, %d changes are left", losses, left)
	}
	for _, table := range s.room.tables {
		inSegments := `SELECT e.node_id, e.namespace, {bytes} AS bytes FROM {table} e JOIN history_segments s ON s.shelf = '{table}' AND e.{id} >= s.first AND e.{id} <= s.last`
		kept := noError(table.nodeBytes(t.Context(), s.db, `SELECT node_id, namespace, bytes FROM history_node_bytes WHERE shelf = '{table}'`))
		equal(t, "bytes of nodes in "+table.table, kept, noError(table.nodeBytes(t.Context(), s.db, inSegments)))
	}
}

// On a nearly full disk the history file stops growing. The journal's space stays free.
func TestHistoryDoesNotGrowOnFullDisk(t *testing.T) {
	free := int64(1 << 40)
	path := filepath.Join(t.TempDir(), "history.db")
	s := noError(open(t.Context(), path, 16, SizeLimit{Budget: 1 << 30, KeepFree: 64 << 20, Free: func() (int64, error) { return free, nil }}))
	defer s.Close()
	fillHistory(t, s, 200)
	before, _, err := s.(*sqlStore).db.FileSize(t.Context())
	requireNoError(t, err)
	if use := s.CurrentUsage(); use.Evicted != 0 || before < 30<<20 {
		t.Fatalf("history uses %+v in %d bytes", use, before)
	}
	free = 63 << 20
	for range 3 {
		for i := range 200 {
			p := problem(fmt.Sprintf("q%06d", i), "web01", i)
			p.Output, p.Closed = strings.Repeat("y", 200_000), minutesAfterNoon(i)
			requireNoError(t, s.Record(t.Context(), Batch{Entries: []Entry{entry(uint64(1000+i), 1000+i)}, Closed: []Problem{p}}))
		}
	}
	after, _, err := s.(*sqlStore).db.FileSize(t.Context())
	requireNoError(t, err)
	if use := s.CurrentUsage(); after > before || !use.DiskFull || use.Evicted == 0 {
		t.Errorf("the file grew from %d to %d bytes; history uses %+v", before, after, use)
	}
}
