// Command series measures the series store, and kills it in a loop.
//
//	go run ./bench/series cost -series 100000 -ticks 150      cost per value, heap, disk, snapshots, time to restart
//	go run ./bench/series kill -series 20000 -rounds 10       SIGKILL under load, then compares all series
//	go run ./bench/series level -series 100000 -ticks 12600   heap and disk each half hour while blocks are written
//
// Each series gets one value per tick, and a tick is one second of injected time: a run appends as fast as it can. A restart
// opens the store, decodes the snapshots and appends the values after them again, as the server does. Series and tick determine
// each value, so the run needs no journal.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
)

const (
	start   = int64(1_800_000_000_000) // ms of the first tick
	workers = 2
)

// settings are the flags.
type settings struct {
	dir        string
	series     int
	ticks      int
	rounds     int
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
		return fmt.Errorf("usage: %s cost|kill|level [flags]", os.Args[0])
	}
	var s settings
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	f.StringVar(&s.dir, "dir", "", "folder to work in; empty: a new one")
	f.IntVar(&s.series, "series", 20_000, "number of series")
	f.IntVar(&s.ticks, "ticks", 1000, "values per series (kill: at most)")
	f.IntVar(&s.rounds, "rounds", 10, "kills")
	f.DurationVar(&s.chunkRange, "range", 2*time.Hour, "range of the head")
	f.BoolVar(&s.keep, "keep", false, "keep the folder")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the kills")
	f.BoolVar(&s.log, "log", false, "print the log of the store")
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
	case "level":
		return level(s)
	case "child":
		return child(s)
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

// subject is a store with the references of its series and the last applied tick of each partition.
type subject struct {
	settings
	series.Store
	refs []series.Series
	at   [model.Partitions]int // ticks applied
	mu   [model.Partitions]sync.Mutex
}

func open(s settings) (*subject, error) {
	store, err := series.Open(filepath.Join(s.dir, "series"), series.Options{Range: s.chunkRange, Retention: 31 * 24 * time.Hour, LateWindow: 24 * time.Hour, Logger: logger(s)})
	if err != nil {
		return nil, err
	}
	return &subject{settings: s, Store: store, refs: make([]series.Series, s.series)}, os.MkdirAll(s.snapshots(), 0o700)
}

func (s *settings) snapshots() string { return filepath.Join(s.dir, "snapshots") }

// begins returns the first tick of a series. Series begin at different ticks, as they do in a fleet, so that their chunks end at different ones.
func begins(n int) int { return n / model.Partitions % 50 }

// apply appends the values of the ticks up to one to all partitions.
func (s *subject) apply(ticks int) {
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			n := 0
			label := func() labels.Labels { return name(n) }
			for p := w; p < model.Partitions; p += workers {
				s.mu[p].Lock()
				for ; s.at[p] < ticks; s.at[p]++ {
					tick := s.at[p]
					at := (start + int64(tick)*1000) * 1e6
					for n = p; n < s.series; n += model.Partitions {
						if tick >= begins(n) {
							s.Append(model.Partition(p), &s.refs[n], label, at, value(n, tick))
						}
					}
				}
				s.mu[p].Unlock()
			}
		})
	}
	running.Wait()
}

// save saves the snapshot of a partition as the server does, and returns its bytes.
func (s *subject) save(p int) (int, error) {
	s.mu[p].Lock()
	body := s.Encode(model.Partition(p), binary.AppendUvarint(nil, uint64(s.at[p])))
	s.mu[p].Unlock()
	packed := s2.Encode(nil, body)
	path := filepath.Join(s.snapshots(), strconv.Itoa(p))
	if err := disk.WriteNew(disk.OS{}, path+".new", packed); err != nil {
		return 0, err
	}
	if err := s.Sync(model.Partition(p)); err != nil {
		return 0, err
	}
	return len(packed), errors.Join(os.Rename(path+".new", path), disk.OS{}.SyncDir(s.snapshots()))
}

// restore decodes the snapshots, and returns the time that it took.
func (s *subject) restore() error {
	var running sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		running.Go(func() {
			for p := w; p < model.Partitions && errs[w] == nil; p += workers {
				packed, err := os.ReadFile(filepath.Join(s.snapshots(), strconv.Itoa(p)))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				body, err2 := s2.Decode(nil, packed)
				if errs[w] = errors.Join(err, err2); errs[w] == nil {
					d := shard.NewDecoder(body)
					s.at[p] = int(d.Uint())
					s.Decode(model.Partition(p), d)
					errs[w] = d.Err()
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// cost appends, and prints cost per value, heap, disk, and the time to restart.
func cost(o settings) error {
	runtime.GC()
	base := heap()
	s, err := open(o)
	if err != nil {
		return err
	}
	// All series exist, as they do in a fleet that runs.
	before := now()
	s.apply(50)
	var first, rest, saving usage
	first.add(before)
	bytes, saved := 0, 0
	for tick := 50; tick < s.ticks; tick++ {
		before = now()
		s.apply(tick + 1)
		rest.add(before)
		if (tick-50)%60 == 59 {
			before = now()
			saved++
			for p := range model.Partitions {
				n, err := s.save(p)
				if err != nil {
					return err
				}
				bytes += n
			}
			saving.add(before)
		}
	}
	samples := float64(s.series) * float64(s.ticks-50)
	fmt.Printf("%d series, %d ticks\n", s.series, s.ticks)
	fmt.Printf("first 50 ticks (series are made) %6.2f µs of CPU per series\n", micros(first.cpu)/float64(s.series))
	fmt.Printf("append                        %6.3f µs of CPU per value, %6.3f µs by the clock with %d workers\n", micros(rest.cpu)/samples, micros(rest.wall)/samples, workers)
	fmt.Printf("snapshots, one per 60 ticks   %6.3f µs of CPU per value, %.2f s of CPU and %.1f s by the clock for each, %.0f B per series\n",
		micros(saving.cpu)/samples, saving.cpu.Seconds()/float64(saved), saving.wall.Seconds()/float64(saved), float64(bytes)/float64(saved)/float64(s.series))
	runtime.GC()
	fmt.Printf("heap                          %6.0f B per series (with %d B for its reference)\n", float64(heap()-base)/float64(s.series), 8)
	fmt.Printf("disk, head                    %6.2f B per value\n", float64(size(filepath.Join(s.dir, "series", "head")))/float64(s.series)/float64(s.ticks))
	ticks := s.ticks
	if err := s.Close(); err != nil {
		return err
	}
	s = nil
	debug.FreeOSMemory()
	before = now()
	if s, err = open(o); err != nil {
		return err
	}
	if err := s.restore(); err != nil {
		return err
	}
	var decoded, replayed usage
	decoded.add(before)
	behind := ticks - s.at[0]
	before = now()
	s.apply(ticks)
	replayed.add(before)
	fmt.Printf("restart                       %6.2f s by the clock, %.2f s of CPU for the snapshots; %.2f s, %.2f s of CPU for %d ticks behind them\n",
		decoded.wall.Seconds(), decoded.cpu.Seconds(), replayed.wall.Seconds(), replayed.cpu.Seconds(), behind)
	r, err := compare(s, ticks)
	if err != nil {
		return err
	}
	fmt.Printf("after the restart: %s\n", r)
	return s.Close()
}

// level appends with snapshots and blocks as a server does, and prints heap and disk after each half hour of injected time, then compares all series.
func level(o settings) error {
	runtime.GC()
	base := heap()
	s, err := open(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	before := now()
	for tick := 1; tick <= s.ticks; tick++ {
		if s.apply(tick); tick%60 == 0 {
			for p := range model.Partitions {
				if _, err := s.save(p); err != nil {
					return err
				}
			}
		}
		if tick%1800 == 0 {
			var used usage
			used.add(before)
			runtime.GC()
			blocks, err := filepath.Glob(filepath.Join(s.dir, "series", "*", "meta.json"))
			if err != nil {
				return err
			}
			head := size(filepath.Join(s.dir, "series", "head"))
			fmt.Printf("%5s  heap %4.0f B per series, files of the head %5.0f MB, %d blocks %5.0f MB, snapshots %4.0f MB, %.3f µs of CPU per value\n", time.Duration(tick)*time.Second,
				float64(heap()-base)/float64(s.series), float64(head)/1e6, len(blocks), float64(size(filepath.Join(s.dir, "series"))-head)/1e6, float64(size(s.snapshots()))/1e6,
				micros(used.cpu)/float64(s.series)/float64(tick))
		}
	}
	r, err := compare(s, s.ticks)
	if err != nil {
		return err
	}
	fmt.Println(r)
	cancel()
	running.Wait()
	return s.Close()
}

// child appends until it is killed, and saves snapshots and writes blocks meanwhile. It prints each tick that is applied.
func child(o settings) error {
	s, err := open(o)
	if err != nil {
		return err
	}
	go s.Run(context.Background())
	cycles := new(atomic.Int64)
	go func() {
		for {
			for p := range model.Partitions {
				if _, err := s.save(p); err != nil {
					fmt.Println("error", err)
				}
			}
			cycles.Add(1)
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	for tick := range s.ticks {
		s.apply(tick + 1)
		fmt.Fprintln(out, "tick", tick, cycles.Load())
		if err := out.Flush(); err != nil {
			return err
		}
	}
	fmt.Println("done")
	select {} // until the parent kills
}

// kill starts a child for each round, kills it at a random tick, restarts on its folder and compares all series.
func kill(o settings) error {
	random := rand.New(rand.NewPCG(o.seed, 2))
	failed := 0
	for round := range o.rounds {
		c := o
		c.dir = filepath.Join(o.dir, strconv.Itoa(round))
		end := o.ticks/3 + random.IntN(max(o.ticks*2/3-1, 1))
		if o.rounds == 1 {
			end = o.ticks - 2
		}
		last, err := killOne(c, end, random)
		if err != nil {
			return err
		}
		debug.FreeOSMemory()
		before := now()
		s, err := open(c)
		if err != nil {
			return err
		}
		if err := s.restore(); err != nil {
			return err
		}
		oldest := s.at[0]
		for _, at := range s.at {
			oldest = min(oldest, at)
		}
		s.apply(last + 1)
		var ready usage
		ready.add(before)
		blocks, _ := filepath.Glob(filepath.Join(c.dir, "series", "*", "meta.json"))
		r, err := compare(s, last+1)
		if err != nil {
			return err
		}
		fmt.Printf("round %d: killed behind tick %d, ready in %.2f s (%.2f s of CPU; oldest snapshot at tick %d, %d blocks); %s\n",
			round, last, ready.wall.Seconds(), ready.cpu.Seconds(), oldest, len(blocks), r)
		if r.lost+r.wrong > 0 {
			failed++
		}
		if err := s.Close(); err != nil {
			return err
		}
		if !o.keep {
			os.RemoveAll(c.dir)
		}
	}
	fmt.Printf("%d of %d kills lost values or changed them\n", failed, o.rounds)
	return nil
}

// killOne starts a child process, lets it write until the tick end, and kills it a random time later. It returns the
// last tick that the child applied.
func killOne(s settings, end int, random *rand.Rand) (last int, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(self, "child", "-dir", s.dir, "-series", strconv.Itoa(s.series), "-ticks", strconv.Itoa(s.ticks), "-range", s.chunkRange.String(), "-keep", "-log="+strconv.FormatBool(s.log))
	c.Stderr = os.Stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(pipe)
	cycles := ""
	last = -1
	read := func() bool {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "tick" {
			last, _ = strconv.Atoi(f[1])
			cycles = f[2]
		} else {
			fmt.Println("  child:", lines.Text())
		}
		return last < end
	}
	for lines.Scan() && read() {
	}
	time.Sleep(time.Duration(random.IntN(100_000)) * time.Microsecond)
	if err := c.Process.Kill(); err != nil {
		return 0, err
	}
	for lines.Scan() { // applied before the kill
		read()
	}
	_ = c.Wait() // killed
	fmt.Printf("  %s cycles of snapshots before the kill\n", cycles)
	return last, nil
}

// result counts the differences between the values that were appended and those that a restarted store returns.
type result struct {
	series                        int
	lost, wrong, expected, beyond int64
}

func (r result) String() string {
	return fmt.Sprintf("%d series with lost values, %d values lost of %d, %d wrong, %d beyond the last tick", r.series, r.lost, r.expected, r.wrong, r.beyond)
}

// compare compares all series with the generator.
func compare(s *subject, ticks int) (r result, err error) {
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
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
		next, gaps := begins(n), int64(0)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			tick := int((ms - start) / 1000)
			switch {
			case tick >= ticks && v == value(n, tick):
				r.beyond++
				continue
			case v != value(n, tick) || tick < next:
				r.wrong++
				continue
			}
			gaps += int64(tick - next)
			next = tick + 1
		}
		if it.Err() != nil {
			return r, it.Err()
		}
		gaps += int64(max(ticks-next, 0))
		r.expected += int64(max(ticks-begins(n), 0))
		if r.lost += gaps; gaps > 0 {
			r.series++
		}
	}
	if seen != s.series {
		r.lost += int64(s.series - seen)
		fmt.Printf("  %d series instead of %d\n", seen, s.series)
	}
	return r, errors.Join(set.Err(), q.Close())
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
