// Command series measures the tsdb of the series store, and kills it in a loop.
//
//	go run ./bench/series cost -series 100000 -ticks 150      cost per sample, heap, disk, time to reopen
//	go run ./bench/series kill -series 20000 -rounds 10       SIGKILL under load, then compares all series
//
// Each series gets one value per tick, and a tick is one second of injected time: a run appends as fast as it can.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/store/series"
)

const (
	start   = int64(1_800_000_000_000) // ms of the first tick
	workers = 2
	batch   = 10_000 // samples in a transaction
)

// settings are the flags.
type settings struct {
	dir        string
	series     int
	ticks      int
	rounds     int
	period     int // ticks between two snapshots; 0: none
	quiet      bool
	chunkRange time.Duration
	keep       bool
	seed       uint64
	log        bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: %s cost|kill [flags]", os.Args[0])
	}
	var s settings
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	f.StringVar(&s.dir, "dir", "", "folder to work in; empty: a new one")
	f.IntVar(&s.series, "series", 20_000, "number of series")
	f.IntVar(&s.ticks, "ticks", 150, "values per series (kill: at most)")
	f.IntVar(&s.rounds, "rounds", 10, "kills")
	f.IntVar(&s.period, "snapshot", 60, "ticks between two snapshots; 0: none")
	f.BoolVar(&s.quiet, "quiet", false, "appends wait while a snapshot is written")
	f.DurationVar(&s.chunkRange, "range", 2*time.Hour, "range of the head")
	f.BoolVar(&s.keep, "keep", false, "keep the folder")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the kills")
	f.BoolVar(&s.log, "log", false, "print the log of the tsdb")
	if err := f.Parse(os.Args[2:]); err != nil {
		return err
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "muster-series-")
		if err != nil {
			return err
		}
		s.dir = dir
		if !s.keep {
			defer os.RemoveAll(dir)
		}
	}
	switch os.Args[1] {
	case "cost":
		return cost(s)
	case "kill":
		return kill(s)
	case "child":
		return child(s)
	case "check":
		return check(s, s.period > 0)
	}
	return fmt.Errorf("unknown command %q", os.Args[1])
}

// value returns the value of a series at a tick: one of four kinds of items.
func value(n, tick int) float64 {
	h := uint64(n)*0x9e3779b97f4a7c15 ^ uint64(tick)*0xbf58476d1ce4e5b9
	h = (h ^ h>>30) * 0x94d049bb133111eb
	h ^= h >> 31
	switch n % 4 {
	case 0: // a constant
		return float64(n % 1000)
	case 1: // a counter with a steady rate
		return float64(tick * (n%1000 + 1))
	case 2: // a small integer
		return float64(h % 100)
	default: // a percentage with two decimals
		return float64(h%10_000) / 100
	}
}

func name(n int) labels.Labels {
	return series.Labels("item."+strconv.Itoa(n%100)+"[sda,avg1]", "node-"+strconv.Itoa(n/100), "default", "linux")
}

// cost appends through the series store, and prints cost per sample, heap, disk, and the time to reopen.
func cost(s settings) error {
	runtime.GC()
	base := heap()
	store, err := series.Open(s.dir, series.Options{Retention: 31 * 24 * time.Hour, LateWindow: 24 * time.Hour, Logger: logger(s)})
	if err != nil {
		return err
	}
	refs := make([]series.Series, s.series)
	appenders := make([]series.Appender, workers)
	for w := range appenders {
		appenders[w] = store.Appender(w, workers)
	}
	number := uint64(0)
	var first, rest usage
	for tick := range s.ticks {
		before := now()
		number++
		var running sync.WaitGroup
		errs := make([]error, workers)
		for w, a := range appenders {
			running.Go(func() {
				at := start + int64(tick)*1000
				at *= 1_000_000
				count := 0
				for n := w; n < s.series && errs[w] == nil; n += workers {
					errs[w] = a.Append(&refs[n], func() labels.Labels { return name(n) }, at, value(n, tick))
					if count++; count%batch == 0 && errs[w] == nil {
						errs[w] = a.Commit(journal.Position{Log: 7, Number: number}, at/1_000_000)
					}
				}
				if errs[w] == nil {
					errs[w] = a.Commit(journal.Position{Log: 7, Number: number}, at/1_000_000)
				}
			})
		}
		running.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		if tick == 0 {
			if err := store.Sync(); err != nil {
				return err
			}
			first.add(before)
		} else {
			rest.add(before)
		}
	}
	samples := float64(s.series) * float64(s.ticks-1)
	fmt.Printf("%d series, %d ticks: %d samples\n", s.series, s.ticks, s.series*s.ticks)
	fmt.Printf("first tick (series are made)  %6.2f µs of CPU per series, %6.2f µs by the clock\n", micros(first.cpu)/float64(s.series), micros(first.wall)/float64(s.series))
	fmt.Printf("append                        %6.3f µs of CPU per sample, %6.3f µs by the clock with %d workers\n", micros(rest.cpu)/samples, micros(rest.wall)/samples, workers)
	before := now()
	if err := store.Sync(); err != nil {
		return err
	}
	fmt.Printf("sync                          %6.2f s\n", time.Since(before.wall).Seconds())
	runtime.GC()
	fmt.Printf("heap                          %6.0f B per series (with %d B for its reference)\n", float64(heap()-base)/float64(s.series), 32)
	for _, folder := range []string{"wal", "wbl", "chunks_head", ""} {
		fmt.Printf("disk %-24s %6.2f B per sample\n", folder, float64(size(filepath.Join(s.dir, folder)))/(float64(s.series)*float64(s.ticks)))
	}
	// The folder as a kill leaves it: a copy while the store is open.
	runtime.KeepAlive(refs)
	killed := s.dir + "-killed"
	if err := os.CopyFS(killed, os.DirFS(s.dir)); err != nil {
		return err
	}
	defer os.RemoveAll(killed)
	before = now()
	if err := store.Close(); err != nil {
		return err
	}
	fmt.Printf("close                         %6.2f s\n", time.Since(before.wall).Seconds())
	store, refs, appenders = nil, nil, nil
	debug.FreeOSMemory()
	before = now()
	store, err = series.Open(killed, series.Options{Retention: 31 * 24 * time.Hour, LateWindow: 24 * time.Hour, Logger: logger(s)})
	if err != nil {
		return err
	}
	var reopen usage
	reopen.add(before)
	fmt.Printf("reopen after a kill           %6.2f s by the clock, %.2f s of CPU: %.3f µs of CPU per sample (replay of the write-ahead log)\n", reopen.wall.Seconds(), reopen.cpu.Seconds(), micros(reopen.cpu)/(float64(s.series)*float64(s.ticks)))
	return store.Close()
}

// open opens the tsdb with the settings of the series store.
func open(s settings, snapshots bool) (*tsdb.DB, error) {
	t := tsdb.DefaultOptions()
	t.RetentionDuration = (31 * 24 * time.Hour).Milliseconds()
	t.OutOfOrderTimeWindow = (24 * time.Hour).Milliseconds()
	t.StripeSize = 1 << 18
	t.BlockReloadInterval = 5 * time.Second
	t.NoLockfile = true
	t.HeadChunksWriteBufferSize = 64 << 10 // the least that the tsdb takes
	t.MinBlockDuration, t.MaxBlockDuration = s.chunkRange.Milliseconds(), max(s.chunkRange, 24*time.Hour).Milliseconds()
	t.EnableMemorySnapshotOnShutdown = snapshots
	return tsdb.Open(s.dir, logger(s), nil, t, nil)
}

// child appends until it is killed. It prints each tick that is committed, and takes snapshots meanwhile.
func child(s settings) error {
	db, err := open(s, s.period > 0)
	if err != nil {
		return err
	}
	refs := make([]uint64, s.series)
	var commits sync.RWMutex // held by a snapshot that is quiet
	wanted := make(chan int, 1)
	go func() {
		for tick := range wanted {
			began := time.Now()
			if s.quiet {
				commits.Lock()
				db.ForceHeadMMap()
			}
			stats, err := db.Head().ChunkSnapshot()
			if s.quiet {
				commits.Unlock()
			}
			if err != nil {
				fmt.Println("error", err)
				continue
			}
			fmt.Println("snapshot", tick, stats.TotalSeries, time.Since(began).Milliseconds())
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	for tick := range s.ticks {
		var running sync.WaitGroup
		errs := make([]error, workers)
		for w := range workers {
			running.Go(func() { errs[w] = appendTick(db, s, refs, &commits, w, tick) })
		}
		running.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		fmt.Fprintln(out, "tick", tick)
		if err := out.Flush(); err != nil {
			return err
		}
		if s.period > 0 && tick%s.period == s.period-1 {
			select {
			case wanted <- tick:
			default: // the one before is not written yet
			}
		}
	}
	fmt.Println("done")
	select {} // until the parent kills
}

// appendTick appends one value of each series of a worker, in transactions of batch values.
func appendTick(db *tsdb.DB, s settings, refs []uint64, commits *sync.RWMutex, w, tick int) error {
	for from := w; from < s.series; from += workers * batch {
		commits.RLock()
		tx := db.Appender(context.Background())
		for n := from; n < min(from+workers*batch, s.series); n += workers {
			l := labels.EmptyLabels()
			if refs[n] == 0 {
				l = name(n)
			}
			// Series begin at different ticks, as they do in a fleet, so that their chunks end at different ones.
			if tick < n%50 {
				continue
			}
			ref, err := tx.Append(storage.SeriesRef(refs[n]), l, start+int64(tick)*1000, value(n, tick))
			if err != nil {
				commits.RUnlock()
				return err
			}
			refs[n] = uint64(ref)
		}
		err := tx.Commit()
		commits.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// kill starts a child for each round, kills it at a random tick, opens its folder and compares all series.
func kill(s settings) error {
	random := rand.New(rand.NewPCG(s.seed, 2))
	lostRounds := 0
	for round := range s.rounds {
		folder := filepath.Join(s.dir, strconv.Itoa(round))
		end := s.ticks
		if s.rounds > 1 {
			end = s.ticks/3 + random.IntN(s.ticks*2/3)
		}
		last, err := killOne(s, folder, end, random)
		if err != nil {
			return err
		}
		c := s
		c.dir, c.ticks = folder, last+1
		lost, err := report(c, round, s.period > 0)
		if err != nil {
			return err
		}
		if lost {
			lostRounds++
			if s.period > 0 { // the write-ahead log is whole: it tells whether the snapshot or the kill lost them
				if _, err := report(c, round, false); err != nil {
					return err
				}
			}
		}
		if !s.keep {
			os.RemoveAll(folder)
		}
	}
	fmt.Printf("%d of %d kills lost values\n", lostRounds, s.rounds)
	return nil
}

// killOne runs a child until a tick, and kills it within the next one. It returns the last tick that the child committed.
func killOne(s settings, folder string, end int, random *rand.Rand) (last int, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, err
	}
	args := []string{"child", "-dir", folder, "-series", strconv.Itoa(s.series), "-ticks", "100000", "-snapshot", strconv.Itoa(s.period),
		"-range", s.chunkRange.String(), "-keep", "-quiet=" + strconv.FormatBool(s.quiet), "-log=" + strconv.FormatBool(s.log)}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(self, args...)
	c.Stderr = os.Stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(pipe)
	last = -1
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch f[0] {
		case "tick":
			last, _ = strconv.Atoi(f[1])
		case "snapshot":
			fmt.Printf("  snapshot at tick %s: %s series in %s ms\n", f[1], f[2], f[3])
		default:
			fmt.Println("  child:", lines.Text())
		}
		if last >= end {
			break
		}
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
	if err := c.Process.Kill(); err != nil {
		return 0, err
	}
	for lines.Scan() { // committed before the kill
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "tick" {
			last, _ = strconv.Atoi(f[1])
		}
	}
	_ = c.Wait() // killed
	fmt.Printf("  killed at tick %d after %.1f s\n", last, time.Since(began).Seconds())
	return last, nil
}

// report checks a folder in a copy, and prints the result.
func report(s settings, round int, snapshots bool) (lost bool, err error) {
	work := s.dir + "-check"
	if out, err := exec.Command("cp", "-a", s.dir, work).CombinedOutput(); err != nil {
		return false, fmt.Errorf("copy: %w: %s", err, out)
	}
	defer os.RemoveAll(work)
	s.dir = work
	r, err := compare(s, snapshots)
	if err != nil {
		return false, err
	}
	source := "write-ahead log"
	if snapshots {
		source = "snapshot and write-ahead log"
	}
	fmt.Printf("round %d, %s: ready in %.2f s (%.2f s of CPU); %d series with lost values, %d values lost of %d, %d wrong, %d beyond the acknowledged tick\n",
		round, source, r.open.wall.Seconds(), r.open.cpu.Seconds(), r.series, r.lost, r.expected, r.wrong, r.beyond)
	return r.lost+r.wrong > 0, nil
}

func check(s settings, snapshots bool) error {
	_, err := report(s, 0, snapshots)
	return err
}

// result counts the differences between the values that were committed and those that a reopened tsdb returns.
type result struct {
	open                          usage
	series                        int
	lost, wrong, expected, beyond int64
}

// compare opens a folder, and compares all series with the generator up to the last tick.
func compare(s settings, snapshots bool) (r result, err error) {
	debug.FreeOSMemory()
	before := now()
	db, err := open(s, snapshots)
	if err != nil {
		return r, err
	}
	r.open.add(before)
	db.DisableCompactions()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return r, err
	}
	numbers := make(map[string]int, s.series)
	for n := range s.series {
		numbers[name(n).String()] = n
	}
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, series.LabelNamespace, "default"))
	seen := 0
	var it chunkenc.Iterator
	for set.Next() {
		n := numbers[set.At().Labels().String()]
		seen++
		it = set.At().Iterator(it)
		next, gaps := n%50, int64(0)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			tick := int((ms - start) / 1000)
			switch {
			case tick >= s.ticks:
				r.beyond++
				continue
			case v != value(n, tick) || tick < next:
				r.wrong++
				continue
			}
			gaps += int64(tick - next)
			next = tick + 1
		}
		gaps += int64(max(s.ticks-max(next, n%50), 0))
		r.expected += int64(max(s.ticks-n%50, 0))
		if r.lost += gaps; gaps > 0 {
			r.series++
		}
	}
	if set.Err() != nil {
		return r, set.Err()
	}
	if missing := s.series - seen; missing > 0 {
		fmt.Printf("  %d series are missing\n", missing)
	}
	if err := q.Close(); err != nil {
		return r, err
	}
	// Without a snapshot on shutdown: the folder is thrown away.
	return r, db.Close()
}

// usage is CPU time of the process and time by the clock.
type usage struct{ cpu, wall time.Duration }

// moment is a reading of both.
type moment struct {
	cpu  time.Duration
	wall time.Time
}

func now() moment {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return moment{time.Duration(r.Utime.Nano() + r.Stime.Nano()), time.Now()}
}

func (u *usage) add(since moment) {
	n := now()
	u.cpu += n.cpu - since.cpu
	u.wall += n.wall.Sub(since.wall)
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// size returns the bytes of the files in a folder.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

func logger(s settings) *slog.Logger {
	if s.log {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
