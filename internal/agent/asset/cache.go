package asset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Sum is the SHA-512 of an archive, in hexadecimal digits.
type Sum = string

const (
	spread       = 2 * time.Second // a fleet spreads the fetching of a new archive over this time
	firstWait    = time.Second     // after the first failure; doubled by each …
	longestWait  = 5 * time.Minute // … up to this
	badWait      = time.Hour       // after an invalid archive
	usedAgain    = time.Hour       // precision of the stored time of last use
	partSuffix   = ".part"         // an archive that is being fetched
	freshSuffix  = ".new"          // a folder that is being extracted, or removed
	listSuffix   = ".list"         // the list of files of an extracted archive, see listHead
	defaultBytes = 2 << 30
)

// Config has the settings of a Cache.
type Config struct {
	Dir   string // made if need be; others may read it
	Bytes int64  // disk for all extracted archives; default 2 GiB
	// Fetch requests an archive from byte offset from on; see Source.
	Fetch   func(ctx context.Context, sum Sum, from int64) (*Source, error)
	Arrived func(sum Sum) // called when an archive is ready; must not block
	Limits  Limits        // default DefaultLimits
	// Alone fetches at once: there is no fleet that would fetch at the same time.
	Alone bool
	// Reserve is the disk space in bytes that stays free; zero: none.
	Reserve int64
	// Look is the period of comparing a used archive with its list; a changed archive is fetched and extracted
	// again. Zero: never.
	Look time.Duration
	// Whose names the users of archives in messages; default "this node's checks".
	Whose string
	Log   *slog.Logger
}

// Source is the stream of an archive from byte From on, which may be lower than requested. The reader
// closes Body.
type Source struct {
	Body io.ReadCloser
	From int64
}

// Cache is the folder of extracted archives, each under its sum.
type Cache struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	entries map[Sum]*entry
	changed chan struct{} // closed and replaced when an entry changes
}

// entry is one archive.
type entry struct {
	wanted bool // a check needs it
	ready  bool
	bytes  int64
	used   time.Time // of a ready one
	again  time.Time // of others: the next attempt
	wait   time.Duration
	noRoom bool   // it was removed because the other wanted archives filled Config.Bytes
	why    string // the reason why it is missing; empty: no attempt has failed yet
	users  int    // running commands that use it: it is not removed
	looked time.Time
}

// Open reads the folder and removes incomplete archives.
func Open(cfg Config) (*Cache, error) {
	cfg.Bytes = cmp.Or(cfg.Bytes, defaultBytes)
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits()
	}
	cfg.Whose = cmp.Or(cfg.Whose, "this node's checks")
	if cfg.Arrived == nil {
		cfg.Arrived = func(Sum) {}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c := &Cache{cfg: cfg, wake: make(chan struct{}, 1), entries: map[Sum]*entry{}, changed: make(chan struct{})}
	list, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the folder of assets: %w", err)
	}
	for _, d := range list { // ascending: the folder of an archive comes before its other files
		at, suffix := filepath.Join(cfg.Dir, d.Name()), filepath.Ext(d.Name())
		sum := strings.TrimSuffix(d.Name(), suffix)
		_, invalid := model.ParseAssetSum(sum)
		switch {
		case suffix == freshSuffix:
			_ = os.RemoveAll(at)
		case suffix == listSuffix && c.entries[sum] == nil:
			_ = os.Remove(at)
		case suffix == partSuffix && c.entries[sum] == nil && invalid == nil: // continued, or removed by the first Want
			c.entries[sum] = &entry{again: c.fetchTime()}
		case suffix == "" && d.IsDir() && invalid == nil:
			e := &entry{ready: true, bytes: bytesIn(at)}
			if info, err := d.Info(); err == nil {
				e.used = info.ModTime()
			}
			c.entries[sum] = e
		}
	}
	return c, nil
}

// bytesIn returns the size of all files below a folder.
func bytesIn(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// Want sets the archives that checks need: missing ones are fetched, others may be removed for space.
func (c *Cache) Want(sums map[Sum]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fewer, gone := false, false
	for sum, e := range c.entries {
		fewer = fewer || e.wanted && !sums[sum]
		if e.wanted = sums[sum]; !e.wanted && !e.ready {
			delete(c.entries, sum)
			_ = os.Remove(c.path(sum) + partSuffix)
			gone = true
		}
	}
	for sum := range sums {
		if e := c.entries[sum]; e == nil {
			c.entries[sum] = &entry{wanted: true, again: c.fetchTime()}
		} else if e.noRoom && fewer {
			e.again, e.wait, e.noRoom = c.fetchTime(), 0, false
		}
	}
	if gone {
		c.wakeWaitersLocked() // they fetch it all the same
	}
	pause.Wake(c.wake)
}

// RetryNow repeats failed attempts, because a server is connected again.
func (c *Cache) RetryNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if !e.ready && e.wait < badWait {
			e.again, e.wait = c.fetchTime(), 0
		}
	}
	pause.Wake(c.wake)
}

// fetchTime returns the time at which a newly wanted archive is fetched.
func (c *Cache) fetchTime() time.Time {
	if c.cfg.Alone {
		return time.Now()
	}
	return time.Now().Add(rand.N(spread))
}

// wakeWaitersLocked makes blocked calls of Use check their archive again.
func (c *Cache) wakeWaitersLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Dir returns the folder of an archive. While the archive is being fetched and has not failed yet, Dir
// waits until ctx ends. The error has the reason why the archive is missing.
func (c *Cache) Dir(ctx context.Context, sum Sum) (string, error) {
	dir, done, err := c.Use(ctx, sum)
	if err == nil {
		done()
	}
	return dir, err
}

// Use returns the folder of an archive as Dir does; the archive is not removed until done is called.
func (c *Cache) Use(ctx context.Context, sum Sum) (dir string, done func(), err error) {
	for {
		c.verifyFolder(sum)
		c.mu.Lock()
		e, changed := c.entries[sum], c.changed
		switch {
		case e == nil: // the facts have changed: another build is for this machine
			c.entries[sum] = &entry{wanted: true, again: time.Now()}
			pause.Wake(c.wake)
		case e.ready:
			stale := time.Since(e.used) > usedAgain
			if stale {
				e.used = time.Now()
			}
			e.users++
			c.mu.Unlock()
			if stale {
				_ = os.Chtimes(c.path(sum), time.Time{}, time.Now()) // keeps the time of use over a restart
			}
			return c.path(sum), func() { c.releaseEntry(e) }, nil
		case e.why != "":
			defer c.mu.Unlock()
			return "", nil, errors.New(e.why)
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil, errors.New("its download is in progress")
		}
	}
}

// releaseEntry releases an entry after a command has ended.
func (c *Cache) releaseEntry(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.users--; e.users == 0 && !e.wanted {
		c.makeRoom("")
	}
}

// Run fetches and extracts wanted archives until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	for {
		sum, wait := c.nextFetch()
		if sum != "" {
			c.fetchArchive(ctx, sum)
			continue
		}
		select {
		case <-time.After(wait):
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// nextFetch returns the archive to fetch now, or the time until the next attempt.
func (c *Cache) nextFetch() (Sum, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := longestWait
	for sum, e := range c.entries {
		if e.ready || !e.wanted {
			continue
		}
		due := time.Until(e.again)
		if due <= 0 {
			return sum, 0
		}
		wait = min(wait, due)
	}
	return "", wait
}

// invalidArchive is an error of the archive itself, which another attempt does not solve.
type invalidArchive struct{ error }

// fetchArchive fetches and extracts one archive and records the outcome in its entry.
func (c *Cache) fetchArchive(ctx context.Context, sum Sum) {
	began := time.Now()
	bytes, err := c.fetchAndExtract(ctx, sum)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer func() {
		c.wakeWaitersLocked()
		c.mu.Unlock()
		if err == nil {
			c.cfg.Arrived(sum)
		}
	}()
	e := c.entries[sum]
	if e == nil { // no check needs it any more
		if err != nil {
			_ = os.Remove(c.path(sum) + partSuffix)
			return
		}
		e = &entry{}
		c.entries[sum] = e
	}
	if err == nil {
		e.ready, e.bytes, e.used, e.why, e.wait, e.noRoom, e.looked = true, bytes, time.Now(), "", 0, false, time.Now()
		c.cfg.Log.Info("asset ready", "sha512", sum[:12], "bytes", bytes, "took", time.Since(began))
		c.makeRoom(sum)
		if !e.ready {
			err = errors.New(e.why)
		}
		return
	}
	e.why, e.wait = err.Error(), min(max(firstWait, 2*e.wait), longestWait)
	if errors.As(err, new(invalidArchive)) {
		e.wait = badWait
	}
	e.again = time.Now().Add(e.wait/2 + rand.N(e.wait))
	c.cfg.Log.Warn("asset not fetched; trying again", "sha512", sum[:12], "in", time.Until(e.again).Round(time.Second), "err", err)
}

// makeRoom removes the least recently used archives that no check needs and no command uses, until all fit
// Config.Bytes. Where that is not enough, it removes the archive that has just arrived (fresh; empty:
// none). The caller holds the lock.
func (c *Cache) makeRoom(fresh Sum) {
	for {
		var all int64
		var oldest Sum
		held := false
		for sum, e := range c.entries {
			if !e.ready {
				continue
			}
			all += e.bytes
			held = held || !e.wanted && e.users > 0
			if !e.wanted && e.users == 0 && (oldest == "" || e.used.Before(c.entries[oldest].used)) {
				oldest = sum
			}
		}
		if all <= c.cfg.Bytes {
			return
		}
		out := cmp.Or(oldest, fresh)
		if out == "" || oldest == "" && held { // the end of a command frees space
			return
		}
		e := c.entries[out]
		if out == fresh && e.wanted {
			e.ready, e.noRoom, e.wait, e.again = false, true, badWait, time.Now().Add(badWait)
			e.why = fmt.Sprintf("the assets of %s have %s, more than the limit of %s", c.cfg.Whose, model.Size(all), model.Size(c.cfg.Bytes))
		} else {
			delete(c.entries, out)
		}
		c.remove(out)
		if out == fresh {
			return
		}
	}
}

// remove deletes the folder and the list of an archive. It renames the folder first, so that a crash leaves
// no incomplete archive.
func (c *Cache) remove(sum Sum) {
	_ = os.Remove(c.path(sum) + listSuffix)
	if err := os.Rename(c.path(sum), c.path(sum)+freshSuffix); err != nil {
		c.cfg.Log.Warn("cannot delete an asset", "sha512", sum[:12], "err", err)
		return
	}
	if err := os.RemoveAll(c.path(sum) + freshSuffix); err != nil {
		c.cfg.Log.Warn("cannot delete an asset completely", "sha512", sum[:12], "err", err)
	}
}

func (c *Cache) path(sum Sum) string { return filepath.Join(c.cfg.Dir, sum) }

// fetchAndExtract makes the archive's folder. After a failed download the part file stays.
func (c *Cache) fetchAndExtract(ctx context.Context, sum Sum) (bytes int64, err error) {
	if err := os.MkdirAll(c.cfg.Dir, 0o755); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(c.path(sum)+partSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := c.fetch(ctx, sum, f); err != nil {
		return 0, err
	}
	size, err := verifySum(f, sum)
	if err == nil {
		bytes, err = c.extract(sum, f, size)
	}
	if gone := os.Remove(f.Name()); err == nil && gone != nil && !errors.Is(gone, fs.ErrNotExist) { // Want may have removed it
		err = gone
	}
	return bytes, err
}

// extract fills a temporary folder, and renames it when its files are synced.
func (c *Cache) extract(sum Sum, f *os.File, size int64) (bytes int64, err error) {
	fresh := c.path(sum) + freshSuffix
	if err := os.RemoveAll(fresh); err != nil {
		return 0, err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(fresh)
		}
	}()
	root, err := os.OpenRoot(fresh)
	if err != nil {
		return 0, err
	}
	limits := c.cfg.Limits
	room, err := c.freeSpace()
	if err != nil {
		return 0, errors.Join(err, root.Close())
	}
	limits.Bytes = min(limits.Bytes, room)
	bytes, err = Extract(root, f, size, limits)
	if err = errors.Join(err, root.Close()); err != nil {
		if limits.Bytes < c.cfg.Limits.Bytes && bytes > limits.Bytes {
			return 0, c.diskFullError(room + c.cfg.Reserve)
		}
		var ours *fs.PathError
		if errors.As(err, &ours) || disk.IsFull(err) {
			return 0, fmt.Errorf("cannot extract it into %s: %w", c.cfg.Dir, err)
		}
		return 0, invalidArchive{fmt.Errorf("the archive is invalid: %w", err)}
	}
	if err := os.Chmod(fresh, 0o755); err != nil { // independent of the umask
		return 0, err
	}
	if old := c.path(sum) + ".old" + freshSuffix; os.Rename(c.path(sum), old) == nil { // left by a crash before its name was synced
		defer os.RemoveAll(old)
	}
	if err := os.Rename(fresh, c.path(sum)); err != nil {
		return 0, err
	}
	if c.cfg.Look > 0 {
		if err := writeList(c.path(sum)); err != nil {
			return 0, err
		}
	}
	return bytes, disk.OS{}.SyncDir(c.cfg.Dir)
}

// freeSpace returns the bytes of disk space that may be filled.
func (c *Cache) freeSpace() (int64, error) {
	if c.cfg.Reserve <= 0 {
		return math.MaxInt64, nil
	}
	free, err := disk.OS{}.Free(c.cfg.Dir)
	if err == nil && free <= c.cfg.Reserve {
		err = c.diskFullError(free)
	}
	return free - c.cfg.Reserve, err
}

// diskFullError returns the error of a disk that has only the reserve left.
func (c *Cache) diskFullError(free int64) error {
	return fmt.Errorf("cannot extract it into %s: the disk has only %s free, and the agent reserves %s", c.cfg.Dir, model.Size(free), model.Size(c.cfg.Reserve))
}
