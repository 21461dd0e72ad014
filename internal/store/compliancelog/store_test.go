//go:build unix

package compliancelog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/store/sqldb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// openStore opens the store of a test.
func openStore(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	o.Now, o.Logger = time.Now, slog.New(slog.DiscardHandler)
	if o.Namespace == nil {
		o.Namespace = func(model.NodeID) string { return "default" }
	}
	return testenv.Value(Open(t.Context(), dsn, o))(t)
}

// testFleet simulates nodes with random runs of directives, and remembers all changes for comparison.
type testFleet struct {
	random  *rand.Rand
	states  map[key]State
	changes []Change
	number  uint64
	now     int64
}

// partition returns the number of the partition to which a test node belongs.
func partition(node model.NodeID) model.Partition { return model.Partition(node % 3) }

// nextRun simulates a run that changes the state of a random directive, or removes the directive. It appends the
// change to the store.
func (f *testFleet) nextRun(s *Store) {
	k := key{model.NodeID(1 + f.random.IntN(5)), model.UnitID(1 + f.random.IntN(3))}
	before := f.states[k]
	f.now += int64(f.random.IntN(1000))
	f.number++
	after := before
	after.Node, after.Unit, after.Executed, after.Changed = k.node, k.unit, f.now, f.now
	switch what := f.random.IntN(20); {
	case before.Definition != 0 && what == 0:
		after = State{Node: k.node, Unit: k.unit, Executed: f.now}
	case before.Definition == 0 || what == 1:
		after.Definition, after.Components = model.DefinitionID(f.number), f.random.IntN(50)
		after.Codes = policy.NewCodes(after.Components)
	case what == 2:
		after.Enforced, after.Changed = !before.Enforced, before.Changed
	default:
		after.Ended = what == 3
		after.Codes = slices.Clone(before.Codes)
		for range f.random.IntN(5) {
			if after.Components > 0 {
				after.Codes.Set(f.random.IntN(after.Components), policy.Status(f.random.IntN(9)))
			}
		}
		if string(after.Codes) == string(before.Codes) {
			after.Changed = before.Changed
		}
	}
	p := partition(k.node)
	if s.CheckpointDue(p) || f.random.IntN(100) == 0 {
		s.Checkpoint(p, s.Last(p), f.now-1, f.statesInPartition(p), nil, false)
	}
	c := Change{Before: before, After: after}
	s.Append(p, journal.Position{Log: 1, Number: f.number}, []Change{c})
	f.changes = append(f.changes, c)
	if f.states[k] = after; after.Definition == 0 {
		delete(f.states, k)
	}
}

// statesInPartition returns the present states of the directives on the nodes of a partition.
func (f *testFleet) statesInPartition(p model.Partition) (list []State) {
	for _, s := range f.states {
		if partition(s.Node) == p {
			list = append(list, s)
		}
	}
	return list
}

// statesAt returns the states of a node at a past time, as text. Zero means every node.
func (f *testFleet) statesAt(node model.NodeID, ms int64) string {
	states := map[key]State{}
	for _, c := range f.changes {
		if k := (key{c.After.Node, c.After.Unit}); c.After.Executed <= ms && (node == 0 || node == k.node) {
			if states[k] = c.After; c.After.Definition == 0 {
				delete(states, k)
			}
		}
	}
	var lines []string
	for _, s := range states {
		lines = append(lines, stateText(&s))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// stateText formats the state of a directive as text, for comparison. The time of its first run is left out, because a
// checkpoint does not contain it.
func stateText(s *State) string {
	return fmt.Sprint(s.Node, s.Unit, s.Definition, s.Changed, s.Enforced, s.Ended, s.Components, s.Codes)
}

// expectAt reads states at random times from the store, and compares the states with the recorded states.
func (f *testFleet) expectAt(t *testing.T, s *Store) {
	t.Helper()
	for range 40 {
		ms, node := f.random.Int64N(f.now+2), model.NodeID(f.random.IntN(6))
		states, err := s.StatesAt(t.Context(), Selection{node, partition(node)}, time.UnixMilli(ms))
		testenv.NoError(t, err)
		var lines []string
		for i := range states {
			lines = append(lines, stateText(&states[i]))
		}
		slices.Sort(lines)
		if got, want := strings.Join(lines, "\n"), f.statesAt(node, ms); got != want {
			t.Fatalf("node %d at %d:\n%s\nwant\n%s", node, ms, got, want)
		}
	}
}

// TestPastStatesAreReadCorrectly simulates random runs and restarts, and expects the recorded states at past
// times. For random times it expects the states to which the runs until then have led.
func TestPastStatesAreReadCorrectly(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { testPastStates(t, filepath.Join(t.TempDir(), "compliance.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { testPastStates(t, pgtest.Start(t).Database(t)) })
}

// testPastStates runs TestPastStatesAreReadCorrectly on one database, given by its data source name.
func testPastStates(t *testing.T, dsn string) {
	f := &testFleet{random: rand.New(rand.NewPCG(1, 1)), states: map[key]State{}, now: 1}
	s := openStore(t, dsn, Options{})
	for round := range 30 {
		for range 200 {
			f.nextRun(s)
		}
		switch {
		case round%10 == 9:
			f.expectAt(t, s) // flushes
			last := s.Last(1)
			testenv.NoError(t, s.Close())
			s = openStore(t, dsn, Options{})
			if s.Last(1) != last {
				t.Fatalf("after a restart the last entry is of %v, want %v", s.Last(1), last)
			}
		case round%3 == 0:
			testenv.NoError(t, s.Flush(t.Context()))
		case round%10 == 4:
			testenv.NoError(t, s.mergeSmallBlocks(t.Context()))
		}
	}
	f.expectAt(t, s)
	small := countBlocks(t, s)
	testenv.NoError(t, s.mergeSmallBlocks(t.Context()))
	if merged := countBlocks(t, s); merged >= small {
		t.Errorf("%d blocks are %d after packing", small, merged)
	}
	f.expectAt(t, s)
	since := f.now / 2
	var got, want int
	testenv.NoError(t, s.Changes(t.Context(), Selection{}, time.UnixMilli(since), time.UnixMilli(f.now-1000), func(c *Change) {
		if c.After.Executed > since {
			got++
		}
	}))
	for _, c := range f.changes {
		if c.After.Executed > since && c.After.Executed <= f.now-1000 {
			want++
		}
	}
	if got != want {
		t.Errorf("%d changes, want %d", got, want)
	}
	if used := s.Definitions(); len(used) < 100 {
		t.Errorf("%d definitions are named", len(used))
	}

	// Entries before the retention go, and all states after its begin stay.
	all := countBlocks(t, s)
	s.opts.Retention = time.Duration(f.now-since) * time.Millisecond
	testenv.NoError(t, s.Clean(t.Context(), time.UnixMilli(f.now)))
	if left := countBlocks(t, s); left >= all {
		t.Errorf("%d blocks of %d are left", left, all)
	}
	for range 20 {
		ms := since + f.random.Int64N(f.now-since)
		states, err := s.StatesAt(t.Context(), Selection{}, time.UnixMilli(ms))
		if want := f.statesAt(0, ms); err != nil || len(states) != strings.Count(want, "\n")+1 {
			t.Fatalf("after cleaning %d states at %d, %v, want %s", len(states), ms, err, want)
		}
	}
	testenv.NoError(t, s.Close())
}

// countBlocks returns the number of blocks in the test database.
func countBlocks(t *testing.T, s *Store) (n int) {
	t.Helper()
	testenv.NoError(t, s.Flush(t.Context()))
	testenv.NoError(t, s.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM compliance_blocks`).Scan(&n))
	return n
}

// TestFlushWritesOnlyItsPartition flushes one partition, and expects the entries of other partitions to stay
// unwritten.
func TestFlushWritesOnlyItsPartition(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{})
	for p := range model.Partition(3) {
		s.Append(p, journal.Position{Log: 1, Number: 1}, []Change{{After: State{Node: model.NodeID(p + 1), Unit: 1, Definition: 1, Executed: 100, Components: 2, Codes: policy.Codes{0x22}}}})
	}
	testenv.NoError(t, s.Flush(t.Context(), 1))
	var first, rows int64
	testenv.NoError(t, s.db.QueryRow(t.Context(), `SELECT MIN(id), COUNT(*) FROM compliance_blocks`).Scan(&first, &rows))
	if rows != 1 || first>>idShift != 1 {
		t.Errorf("%d blocks are written, the first of partition %d", rows, first>>idShift)
	}
	if n := countBlocks(t, s); n != 3 {
		t.Errorf("a flush of all partitions makes %d blocks of 3", n)
	}
	testenv.NoError(t, s.Close())
}

// TestMissingBlocksAreReported deletes a row with a block, and expects an error from a read instead of wrong states.
func TestMissingBlocksAreReported(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{})
	state := State{Node: 1, Unit: 1, Definition: 1, Executed: 100, Components: 2, Codes: policy.Codes{0x22}}
	s.Append(0, journal.Position{Log: 1, Number: 1}, []Change{{After: state}})
	for i := range 3000 {
		next := state
		next.Executed, next.Codes = state.Executed+1000, policy.Codes{0x22 + byte(i%2)}
		s.Append(0, journal.Position{Log: 1, Number: uint64(i + 2)}, []Change{{Before: state, After: next}})
		state = next
	}
	at := time.UnixMilli(state.Executed)
	if states, err := s.StatesAt(t.Context(), Selection{}, at); err != nil || len(states) != 1 || states[0].Executed != state.Executed {
		t.Fatalf("states %+v, %v", states, err)
	}
	testenv.NoError(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM compliance_blocks WHERE id = 2`)
		return err
	}))
	if states, err := s.StatesAt(t.Context(), Selection{}, at); err == nil || !strings.Contains(err.Error(), errMissing.Error()) {
		t.Errorf("states with a missing block: %+v, %v", states, err)
	}
	testenv.NoError(t, s.Close())
}

// TestCertificateIsReadBack stores a certificate twice, and expects a read by its checksum to return the same
// bytes.
func TestCertificateIsReadBack(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{})
	der := bytes.Clone(certificateDictionary)
	der[20]++
	s.AddCertificate(der, 5)
	s.AddCertificate(der, 9)
	testenv.NoError(t, s.Flush(t.Context()))
	sum := CertificateSum(sha256.Sum256(der))
	if got := testenv.Value(s.Certificate(t.Context(), sum))(t); !bytes.Equal(got, der) {
		t.Errorf("the certificate is %x, want %x", got, der)
	}
	sum[31]++
	if got := testenv.Value(s.Certificate(t.Context(), sum))(t); got != nil {
		t.Errorf("the certificate of an unknown sum is %x", got)
	}
	if size := testenv.Value(sqldb.QueryValue[int](t.Context(), s.db, "a size", `SELECT SUM(LENGTH(der)) FROM compliance_certificates`))(t); size > 100 {
		t.Errorf("a certificate of %d bytes that differs in one byte from the dictionary takes %d", len(der), size)
	}
	testenv.NoError(t, s.Close())
}

// TestRestartHidesEarlierStates writes a checkpoint after lost history, and expects no earlier states from that
// time on.
func TestRestartHidesEarlierStates(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{})
	first := State{Node: 1, Unit: 1, Definition: 1, Executed: 100, Components: 2, Codes: policy.Codes{0x22}}
	other := State{Node: 1, Unit: 2, Definition: 2, Executed: 300, Changed: 300, Components: 2, Codes: policy.Codes{0x52}}
	s.Append(0, journal.Position{Log: 1, Number: 1}, []Change{{After: first}})
	s.Checkpoint(0, journal.Position{Log: 2, Number: 7}, 400, []State{other}, nil, true)
	for ms, want := range map[int64]int{99: 0, 100: 1, 350: 1, 400: 1} {
		states, err := s.StatesAt(t.Context(), Selection{}, time.UnixMilli(ms))
		if err != nil || len(states) != want || want > 0 && states[0].Unit != map[bool]model.UnitID{false: 1, true: 2}[ms >= 400] {
			t.Errorf("at %d: %+v, %v", ms, states, err)
		}
	}
	if s.Last(0) != (journal.Position{Log: 2, Number: 7}) {
		t.Errorf("last entry of %v", s.Last(0))
	}
	testenv.NoError(t, s.Close())
}

// TestOldestEntryIncludesUnwrittenRun appends a run, and expects OldestEntry to return its time before a
// database write.
func TestOldestEntryIncludesUnwrittenRun(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{})
	s.Append(0, journal.Position{Log: 1, Number: 1}, []Change{{After: State{Node: 1, Unit: 1, Definition: 1, Executed: 100, Components: 2, Codes: policy.Codes{0x22}}}})
	if begin, err := s.OldestEntry(t.Context()); err != nil || begin.IsZero() {
		t.Errorf("history begins at %v, %v", begin, err)
	}
	testenv.NoError(t, s.Close())
}

// TestSizeLimitRemovesOldestEntries fills a store beyond its size limit, and expects the oldest entries to be
// removed.
func TestSizeLimitRemovesOldestEntries(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "compliance.db"), Options{Budget: 128 << 10})
	f := &testFleet{random: rand.New(rand.NewPCG(2, 2)), states: map[key]State{}, now: 1}
	for range 40 {
		for range 500 {
			f.nextRun(s)
		}
		testenv.NoError(t, s.Flush(t.Context()))
		testenv.NoError(t, s.Clean(t.Context(), time.UnixMilli(f.now)))
	}
	if _, used, err := s.db.FileSize(t.Context()); err != nil || used > 256<<10 {
		t.Errorf("%d bytes, %v", used, err)
	}
	begin, err := s.OldestEntry(t.Context())
	if err != nil || begin.UnixMilli() < f.now/4 {
		t.Errorf("the oldest entry is of %v, %v; now is %d", begin, err, f.now)
	}
	testenv.NoError(t, s.Close())
}

// TestNoisyNodeLosesOldestEntries exceeds the size limit by entries of one node, and expects only that node to
// lose entries. It loses its oldest entries, and later changes stay readable. The databases are SQLite and
// PostgreSQL.
func TestNoisyNodeLosesOldestEntries(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { testNoisyNode(t, filepath.Join(t.TempDir(), "compliance.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { testNoisyNode(t, pgtest.Start(t).Database(t)) })
}

// testNoisyNode runs TestNoisyNodeLosesOldestEntries on one database, given by its data source name.
func testNoisyNode(t *testing.T, dsn string) {
	const budget, noisy = 400 << 10, 3
	s := openStore(t, dsn, Options{Budget: budget, Namespace: func(id model.NodeID) string { return map[bool]string{true: "noisy", false: "quiet"}[id == noisy] }})
	random := rand.New(rand.NewPCG(5, 5))
	f := &testFleet{random: random, states: map[key]State{}, now: 1}
	for i := range 6000 {
		node := model.NodeID(noisy)
		if i%100 == 0 {
			node = 6 // in the partition of the noisy one
		}
		k := key{node, 1}
		before := f.states[k]
		f.now += 1000
		f.number++
		after := State{Node: node, Unit: 1, Definition: 5, Executed: f.now, Changed: f.now, Components: 400, Codes: policy.NewCodes(400)}
		for c := range 400 {
			after.Codes.Set(c, policy.Status(1+random.IntN(4)))
		}
		if s.CheckpointDue(0) {
			s.Checkpoint(0, s.Last(0), f.now-1, f.statesInPartition(0), nil, false)
		}
		c := Change{Before: before, After: after}
		s.Append(0, journal.Position{Log: 1, Number: f.number}, []Change{c})
		f.changes, f.states[k] = append(f.changes, c), after
		if i%500 == 499 {
			testenv.NoError(t, s.Flush(t.Context()))
			testenv.NoError(t, s.Clean(t.Context(), time.UnixMilli(f.now)))
		}
	}
	used := testenv.Value(s.usedBytes(t.Context()))(t)
	if used > budget+256<<10 || used < budget/4 {
		t.Errorf("%d bytes are used of %d", used, budget)
	}
	state := func(node model.NodeID, ms int64) string {
		states := testenv.Value(s.StatesAt(t.Context(), Selection{node, 0}, time.UnixMilli(ms)))(t)
		if len(states) == 0 {
			return ""
		}
		return stateText(&states[0])
	}
	for ms := int64(2000); ms <= f.now; ms += f.now / 50 {
		if got, want := state(6, ms), f.statesAt(6, ms); got != want {
			t.Fatalf("the quiet node at %d: %s\nwant %s", ms, got, want)
		}
		if got, want := state(noisy, ms), f.statesAt(noisy, ms); got != want && (got != "" || ms > f.now*9/10) {
			t.Fatalf("the noisy node at %d: %s\nwant nothing or %s", ms, got, want)
		}
	}
	if state(noisy, f.now/10) != "" {
		t.Error("the noisy node has its oldest entries")
	}
	seen, last := map[model.NodeID]int{}, map[model.NodeID]string{}
	testenv.NoError(t, s.Changes(t.Context(), Selection{}, time.UnixMilli(0), time.UnixMilli(f.now), func(c *Change) {
		seen[c.After.Node]++
		last[c.After.Node] = stateText(&c.After)
	}))
	if seen[6] != 60 || seen[noisy] == 0 || seen[noisy] > 5000 || last[noisy] != f.statesAt(noisy, f.now) {
		t.Errorf("changes by node: %v, last %s", seen, last[noisy])
	}
	testenv.NoError(t, s.Close())
}

// goldenBlock encodes a block with one entry of each kind.
func goldenBlock() blockContent {
	var e encoder
	first := State{Node: 7, Unit: 1000, Definition: 5, Executed: 1_800_000_000_000, Components: 40, Codes: policy.NewCodes(40), Enforced: true}
	second := first
	second.Executed, second.Ended, second.Codes = first.Executed+300_000, true, slices.Clone(first.Codes)
	second.Codes.Set(39, policy.Error)
	e.append(&Change{After: first})
	e.append(&Change{Before: first, After: second})
	third := second
	third.Executed, third.Codes = second.Executed+300_000, slices.Clone(second.Codes)
	third.Codes.Set(0, policy.Success)
	third.Codes.Set(30, policy.Repaired)
	e.append(&Change{Before: second, After: third})
	e.append(&Change{Seal: &ChainEntry{Node: 7, At: third.Executed, ChainStart: policy.ChainFirst, Number: 3, UnixMs: uint64(third.Executed) - 5, Link: policy.Link{1, 2}}})
	linked := third
	linked.Executed++
	e.append(&Change{Before: third, After: linked, Linked: true, SignedMs: linked.Executed - 3_600_000})
	e.append(&Change{Seal: &ChainEntry{Node: 7, At: third.Executed + 1, Number: 4, UnixMs: uint64(third.Executed), Assignment: [32]byte{3}, Certificate: CertificateSum{4}, Signature: [64]byte{5}}})
	e.append(&Change{Before: third, After: State{Node: 7, Unit: 1000, Executed: third.Executed + 1}})
	return e.content()
}

// TestBlockMatchesGoldenFile encodes entries, and compares the bytes with a golden file.
func TestBlockMatchesGoldenFile(t *testing.T) {
	testenv.Golden(t, "testdata/block-v3.hex", hex.Dump(new(compression).encodeRow(goldenBlock(), false)), "another form of blocks")
}

// changeText formats an entry of the history for comparison.
func changeText(c *Change) string {
	if c.Seal != nil {
		return fmt.Sprint(*c.Seal)
	}
	return fmt.Sprint(*c)
}

// FuzzDecodeBlock decodes random bytes as a block, and expects an error or equal changes after encoding.
func FuzzDecodeBlock(f *testing.F) {
	c := testenv.Value(newCompression())(f)
	f.Add(c.encodeRow(goldenBlock(), false))
	f.Add(c.encodeRow(goldenBlock(), true))
	f.Fuzz(func(t *testing.T, stored []byte) {
		data, err := c.decompressRow(stored)
		if err != nil {
			return
		}
		everyone := func(model.NodeID) bool { return true }
		rows := historyReader{states: map[key]*State{}, until: 1 << 62, accepts: everyone}
		_ = rows.decodeStored(data)
		var again encoder
		var first, second []string
		r := historyReader{states: map[key]*State{}, until: 1 << 62, accepts: everyone, visit: func(c *Change) {
			again.append(c)
			first = append(first, changeText(c))
		}}
		if r.hashes.rest = data.hashes; r.decode(data.entries) != nil {
			return
		}
		numbered := map[key]bool{}
		for _, k := range r.keys {
			if numbered[k.key] {
				return // an encoder numbers no key twice
			}
			numbered[k.key] = true
		}
		r.states, r.block, r.hashes = map[key]*State{}, 0, decoder{rest: again.hashes}
		r.visit = func(c *Change) { second = append(second, changeText(c)) }
		if err := r.decode(again.data); err != nil || !slices.Equal(first, second) {
			t.Fatalf("%v: %v, then %v", err, first, second)
		}
	})
}
