package journal_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/testenv"
)

// commitTimes is a test Waiter that records how long after the test's start each entry was committed.
type commitTimes struct {
	start time.Time
	list  []time.Duration
}

// Committed records how long after the test's start an entry was committed.
func (c *commitTimes) Committed(uint64, journal.Position, error) {
	c.list = append(c.list, time.Since(c.start))
}

// TestPatientEntriesWaitForOthers expects urgent entries to be committed soon, and patient entries to wait for others.
// Urgent entries wait at most Linger and take waiting patient entries along. Patient entries alone wait for
// PatientLinger or a full batch.
func TestPatientEntriesWaitForOthers(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name    string
		entries []time.Duration // when they come; a negative time: the entry is not patient
		size    int
		want    []time.Duration // when they are committed
	}{
		{"alone", []time.Duration{0, 50 * ms, 99 * ms}, 8, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"with another", []time.Duration{0, -50 * ms}, 8, []time.Duration{70 * ms, 70 * ms}},
		{"another alone", []time.Duration{-1 * ms}, 8, []time.Duration{21 * ms}},
		{"behind another", []time.Duration{-1 * ms, 2 * ms, 30 * ms}, 8, []time.Duration{21 * ms, 21 * ms, 121 * ms}},
		{"full", []time.Duration{0, 10 * ms, 20 * ms}, 400, []time.Duration{20 * ms, 20 * ms, 120 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := openTestLog(t, "/j", journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, Linger: 20 * ms, PatientLinger: 100 * ms, MaxCommit: 1000})
				times := &commitTimes{start: time.Now()}
				for _, at := range c.entries {
					patient := at >= 0
					time.Sleep(time.Until(times.start.Add(max(at, -at))))
					testenv.NoError(t, l.Append(context.Background(), journal.Entry{Section: 1, Data: make([]byte, c.size), Waiter: times, Patient: patient}))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if !slices.Equal(times.list, c.want) {
					t.Errorf("committed after %v, want %v", times.list, c.want)
				}
				testenv.NoError(t, l.Close())
			})
		})
	}
}

// TestFullBatchesDoNotLinger appends entries for six commits together, and expects only the last commit to wait for
// more.
func TestFullBatchesDoNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openTestLog(t, "/j", journal.Options{FS: memfs.New(), Tick: -1, Reserve: -1, Linger: 20 * time.Millisecond, PatientLinger: 100 * time.Millisecond, MaxCommit: 1000})
		times := &commitTimes{start: time.Now()}
		for range 12 {
			testenv.NoError(t, l.Append(context.Background(), journal.Entry{Section: 1, Data: make([]byte, 400), Waiter: times, Patient: true}))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(times.list) != 12 || !slices.Equal(times.list[:10], make([]time.Duration, 10)) {
			t.Errorf("committed after %v", times.list)
		}
		testenv.NoError(t, l.Close())
	})
}
