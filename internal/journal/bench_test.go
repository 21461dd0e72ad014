//go:build unix

package journal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// resultWireBytes is the size of one encoded result that the speed goals assume.
const resultWireBytes = 116

// newResultEntry returns a random journal entry with the results of one agent
func newResultEntry(rng *rand.Rand, results int) []byte {
	var b []byte
	for range results {
		b = fmt.Appendf(b, "\x32\x72\x08%c\x52\x6e\x08%c\x18\x07\x22\x64DISK OK - free space: / %5d MB (%2d%% inode=%2d%%);| /=%6dMB;%5d;%5d;0;%6d id=%08x ",
			byte(rng.IntN(128)), byte(rng.IntN(40)), rng.IntN(99999), rng.IntN(99), rng.IntN(99),
			rng.IntN(999999), rng.IntN(99999), rng.IntN(99999), rng.IntN(999999), rng.Uint32())
	}
	return b[:min(len(b), results*resultWireBytes)]
}

// processCPUTime returns the CPU time that the process has used so far.
func processCPUTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waitGroupWaiter is a Waiter that counts committed entries in a wait group.
type waitGroupWaiter struct{ sync.WaitGroup }

// Committed marks one entry as done in the wait group.
func (g *waitGroupWaiter) Committed(uint64, journal.Position, error) { g.Done() }

// BenchmarkCommit measures the latency and CPU time of one synced commit, for several commit sizes.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l, err := journal.Open(b.TempDir(), journal.Options{Tick: -1, Reserve: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			var done waitGroupWaiter
			var entries []journal.Entry
			for raw := 0; raw+8*resultWireBytes+2 < size; raw += 8*resultWireBytes + 2 {
				entries = append(entries, journal.Entry{
					Section: journal.Section(rng.IntN(256)), Data: newResultEntry(rng, 8), Waiter: &done,
				})
			}
			results := len(entries) * 8
			before, began := l.Stats(), processCPUTime()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				done.Add(len(entries))
				if err := l.Append(context.Background(), entries...); err != nil {
					b.Fatal(err)
				}
				done.Wait()
				if l.Stats().SizeBytes > 1<<30 {
					_ = l.Cut(l.Head())
				}
			}
			b.StopTimer()
			after := l.Stats()
			b.ReportMetric(float64(processCPUTime()-began)/float64(b.N*results)/1e3, "cpu-µs/result")
			b.ReportMetric(float64(after.WrittenBytes-before.WrittenBytes)/float64(b.N*results), "disk-B/result")
		})
	}
}

// BenchmarkAppend appends entries with eight results each as fast as the disk accepts. Group commit determines the
// size of commits.
func BenchmarkAppend(b *testing.B) {
	l, err := journal.Open(b.TempDir(), journal.Options{Tick: -1, Reserve: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	var done waitGroupWaiter
	entries := make([]journal.Entry, 1024)
	for i := range entries {
		entries[i] = journal.Entry{
			Section: journal.Section(rng.IntN(256)), Data: newResultEntry(rng, 8), Waiter: &done,
		}
	}
	began := processCPUTime()
	b.ReportAllocs()
	b.ResetTimer()
	done.Add(b.N)
	for i := range b.N {
		if err := l.Append(context.Background(), entries[i%1024:i%1024+1]...); err != nil {
			b.Fatal(err)
		}
		if i%65536 == 0 {
			_ = l.Cut(l.Head())
		}
	}
	done.Wait()
	b.StopTimer()
	s := l.Stats()
	b.ReportMetric(float64(processCPUTime()-began)/float64(b.N*8)/1e3, "cpu-µs/result")
	b.ReportMetric(float64(s.Entries)/float64(s.Commits), "entries/commit")
	b.ReportMetric(float64(b.N*8)/b.Elapsed().Seconds(), "results/s")
}

// BenchmarkReplay measures how fast a log of check results can be read again after a restart. Each byte is
// verified and each entry read.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	l, err := journal.Open(dir, journal.Options{Tick: -1, Reserve: -1})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const entries = 100_000
	for range entries {
		e := journal.Entry{Section: journal.Section(rng.IntN(256)), Data: newResultEntry(rng, 8)}
		if err := l.Append(context.Background(), e); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var opening time.Duration
	for range b.N {
		began := time.Now()
		l, err := journal.Open(dir, journal.Options{Tick: -1, Reserve: -1})
		if err != nil {
			b.Fatal(err)
		}
		opening += time.Since(began)
		n := 0
		err = l.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
			for _, s := range c.Sections() {
				if err := c.Entries(s, func([]byte) error { n++; return nil }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || n != entries {
			b.Fatal(n, err)
		}
		_ = l.Close()
	}
	b.ReportMetric(float64(b.N*entries*8)/b.Elapsed().Seconds(), "results/s")
	b.ReportMetric(float64(b.N*entries*8)/opening.Seconds(), "results-checked/s")
}

// BenchmarkLinger measures 2,000 appends per second, with and without a pause (linger) before each commit. During the
// pause more entries join the commit.
func BenchmarkLinger(b *testing.B) {
	for _, linger := range []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond} {
		b.Run(linger.String(), func(b *testing.B) {
			l, err := journal.Open(b.TempDir(), journal.Options{Tick: -1, Reserve: -1, Linger: linger})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			var done waitGroupWaiter
			e := journal.Entry{Section: 1, Data: newResultEntry(rng, 8), Waiter: &done}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			began := processCPUTime()
			b.ResetTimer()
			for range b.N {
				<-tick.C
				done.Add(2)
				_ = l.Append(context.Background(), e)
				_ = l.Append(context.Background(), e)
			}
			done.Wait()
			s := l.Stats()
			b.ReportMetric(float64(processCPUTime()-began)/float64(s.Entries*8)/1e3, "cpu-µs/result")
			b.ReportMetric(float64(s.Entries)/float64(s.Commits), "entries/commit")
			b.ReportMetric(float64(s.WrittenBytes)/float64(s.Entries*8), "disk-B/result")
		})
	}
}
