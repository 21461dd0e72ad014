package metric

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestSenderClock sends batches through delays and clock changes, and expects the right send time of each. It is right
// at the latest ten minutes after a step of the server's clock. The sender also reboots.
func TestSenderClock(t *testing.T) {
	const second, skew = int64(time.Second), 3600 * int64(time.Second)
	var c senderClock
	received, nowMs := int64(1e18), uint64(5e6)
	send := func(what string, wait, within int64) {
		t.Helper()
		received, nowMs = received+second, nowMs+1000
		if got, want := c.sendTime(received+wait, nowMs), received; got < want-within || got > want {
			t.Fatalf("%s: %d ms from the send time", what, (got-want)/1e6)
		}
	}
	for range 3 {
		send("at once", 0, 0)
	}
	for wait := 5 * second; wait >= 0; wait -= second { // six batches that arrive together
		send("waited", wait, 0)
	}
	for i := range int64(300) { // an overloaded server
		send("ever longer", i*second/10, 0)
	}
	received += 5 * second // the server's clock, forward
	for i := range int64(900) {
		if i < 600 {
			send("after a step forward", 0, 5*second)
		} else {
			send("ten minutes after a step forward", 0, 0)
		}
	}
	received += skew
	send("after an hour forward", 0, 0)
	received -= 5 * second
	send("after a step back", 0, 0)
	nowMs = 3
	send("after a reboot", 0, 0)
	received, nowMs = received+skew, nowMs+uint64(skew/1e6)-3000 // the machine was paused for 3 s
	send("after a pause of an hour", 0, 0)
}

// TestDelayedBatchesKeepSendTimes delays batches of values, and expects the values to have the send times of
// the agent. No trigger fails because of the values' order, also after a restart from a snapshot.
func TestDelayedBatchesKeepSendTimes(t *testing.T) {
	v := newTestView()
	values, nowMs := 0.0, uint64(3_600_000)
	apply := func(number uint64, batches int) {
		t.Helper()
		c := &testCommit{number: number}
		for range batches {
			var list []wire.BlockValue
			var times []int64
			for i := range int64(5) {
				values++
				times, list = append(times, (i-4)*1e9), append(list, wire.BlockValue{Row: uint32(i), Value: item.FromFloat(values)})
			}
			nowMs += 5000
			c.entries = append(c.entries, v.blockAt(nowMs, 11, times, list))
		}
		testenv.NoError(t, v.shard.Apply(c))
		if last := v.Items(7)[0]; last.At.UnixNano() != int64(1e18)+int64(values)*1e9-1e8 || last.Value != item.FromFloat(values) {
			t.Errorf("commit %d: value %v at %v", number, last.Value, last.At.UTC())
		}
		for _, verdict := range v.partitions[3].pending {
			if verdict.Problem {
				t.Errorf("a problem at commit %d: %s", verdict.Commit, verdict.Output)
			}
		}
	}
	apply(5, 1)
	apply(10, 1)
	apply(20, 2) // the first one waited
	body, at := v.shard.Snapshot(3, nil)
	restored := newTestView()
	testenv.NoError(t, restored.shard.Restore(3, at, body))
	restored.number = v.number
	v = restored
	apply(40, 4)
}

// lateCommit is a test commit with a later receive time than its commit number implies.
type lateCommit struct {
	testCommit
	late time.Duration
}

// Received returns the receive time of the test commit.
func (c *lateCommit) Received() int64 { return c.testCommit.Received() + int64(c.late) }

// TestNodataIgnoresClockChanges moves the server's clock or pauses the server, and expects no false alarm from the
// function nodata. The problem comes one period after the last value. The view is restored from a snapshot now and
// then.
func TestNodataIgnoresClockChanges(t *testing.T) {
	for _, paused := range []bool{false, true} {
		v, late, nowMs := newTestView(), time.Duration(0), uint64(3_600_000)
		apply := func(number uint64, entries ...[]byte) {
			t.Helper()
			testenv.NoError(t, v.shard.Apply(&lateCommit{testCommit{number, entries}, late}))
			if number%50 > 0 {
				return
			}
			body, at := v.shard.Snapshot(3, nil)
			restored := newTestView()
			testenv.NoError(t, restored.shard.Restore(3, at, body))
			restored.number = v.number
			v = restored
		}
		problems := func() (commits []uint64) {
			for _, verdict := range v.partitions[3].pending {
				if verdict.Problem {
					commits = append(commits, verdict.Commit)
				}
			}
			return commits
		}
		const last = 900
		for number := uint64(1); number <= last; number++ {
			if number == 100 {
				if late = 3 * time.Minute; paused {
					nowMs -= 180_000 // the sender wrote to the paused server
				}
			}
			if paused && number > 110 && number <= 290 {
				nowMs += 1000 // the server reads what has waited, twice as fast
			}
			if nowMs += 1000; number%10 == 0 {
				apply(number, v.blockAt(nowMs, 12, []int64{0}, []wire.BlockValue{{Value: item.FromFloat(1)}}))
			} else {
				apply(number)
			}
		}
		if at := problems(); at != nil {
			t.Errorf("paused %v: problems at commits %v while values arrive", paused, at)
		}
		for number := uint64(last + 1); number <= last+130; number++ {
			apply(number)
		}
		if at := problems(); len(at) != 1 || at[0] < last+118 || at[0] > last+121 {
			t.Errorf("paused %v: problems at commits %v after the last value in %d", paused, at, last)
		}
	}
}
