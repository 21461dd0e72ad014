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
	fetchSpread        = 2 * time.Second // a fleet spreads the fetching of a new archive over this time
	firstRetryWait     = time.Second     // after the first failure; doubled by each …
	longestRetryWait   = 5 * time.Minute // … up to this
	invalidArchiveWait = time.Hour       // after an invalid archive
	useTimePrecision   = time.Hour       // precision of the stored time of last use
	partSuffix         = ".part"         // an archive that is being fetched
	temporarySuffix    = ".new"          // a folder that is being extracted, or removed
	listSuffix         = ".list"         // the list of files of an extracted archive, see listHead
	defaultBytes       = 2 << 30
)

// Config has the settings of a Cache of asset archives.
type Config struct {
	Dir   string // made if need be; others may read it
	Bytes int64  // disk for all extracted archives; default 2 GiB
	// Fetch requests an archive from byte offset from on; see Source.
	Fetch  func(ctx context.Context, sum Sum, from int64) (*Source, error)
	Ready  func(sum Sum) // called when an archive is ready; must not block
	Limits Limits        // default DefaultLimits
	// NoDelay fetches an archive without the random delay that spreads the requests of a fleet.
	NoDelay bool
	// Reserve is the disk space in bytes that stays free; zero: none.
	Reserve int64
	// Look is the period of comparing a used archive with its list; a changed archive is fetched and extracted
	// again. Zero: never.
	Look time.Duration
	// Whose names the users of archives in messages; default "this node's checks".
	Whose string
	Log   *slog.Logger
}

// Source is the body of an archive's download, with the byte offset of the body's first byte. From may be lower than
// requested. The reader closes Body.
type Source struct {
	Body io.ReadCloser
	From int64
}

// Cache is the agent's folder of extracted asset archives, each in a subfolder named by its SHA-512.
type Cache struct {
	cfg  Config
	wake chan struct{}

	mu       sync.Mutex
	archives map[Sum]*cachedArchive
	changed  chan struct{} // closed and replaced when an entry changes
}

// cachedArchive describes one archive in the cache, with its progress such as wanted, ready or failed.
type cachedArchive struct {
	wanted          bool // a check needs the archive
	ready           bool
	bytes           int64
	usedAt          time.Time // time of the last use of a ready archive
	nextAttempt     time.Time // time of the next attempt to fetch a missing archive
	retryWait       time.Duration
	evicted         bool   // the cache removed the archive because other wanted archives filled Config.Bytes
	missingReason   string // the reason why the archive is missing; empty: no attempt has failed yet
	runningCommands int    // running commands that use the archive; above zero, the cache keeps the archive
	verifiedAt      time.Time
}

// Open opens the cache's folder and deletes incomplete archives.
func Open(cfg Config) (*Cache, error) {
	cfg.Bytes = cmp.Or(cfg.Bytes, defaultBytes)
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits()
	}
	cfg.Whose = cmp.Or(cfg.Whose, "this node's checks")
	if cfg.Ready == nil {
		cfg.Ready = func(Sum) {}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c := &Cache{cfg: cfg, wake: make(chan struct{}, 1), archives: map[Sum]*cachedArchive{}, changed: make(chan struct{})}
	list, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the folder of assets: %w", err)
	}
	for _, d := range list { // ascending: the folder of an archive comes before its other files
		at, suffix := filepath.Join(cfg.Dir, d.Name()), filepath.Ext(d.Name())
		sum := strings.TrimSuffix(d.Name(), suffix)
		_, invalid := model.ParseAssetSum(sum)
		switch {
		case suffix == temporarySuffix:
			_ = os.RemoveAll(at)
		case suffix == listSuffix && c.archives[sum] == nil:
			_ = os.Remove(at)
		case suffix == partSuffix && c.archives[sum] == nil && invalid == nil: // continued, or removed by the first Want
			c.archives[sum] = &cachedArchive{nextAttempt: c.fetchTime()}
		case suffix == "" && d.IsDir() && invalid == nil:
			e := &cachedArchive{ready: true, bytes: folderBytes(at)}
			if info, err := d.Info(); err == nil {
				e.usedAt = info.ModTime()
			}
			c.archives[sum] = e
		}
	}
	return c, nil
}

// folderBytes returns the size of all files below a folder.
func folderBytes(dir string) (n int64) {
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

// SetNeeded tells the cache which archives the checks need. The cache downloads the missing archives, and may delete all
// others.
func (c *Cache) SetNeeded(sums map[Sum]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fewer, gone := false, false
	for sum, e := range c.archives {
		fewer = fewer || e.wanted && !sums[sum]
		if e.wanted = sums[sum]; !e.wanted && !e.ready {
			delete(c.archives, sum)
			_ = os.Remove(c.archivePath(sum) + partSuffix)
			gone = true
		}
	}
	for sum := range sums {
		if e := c.archives[sum]; e == nil {
			c.archives[sum] = &cachedArchive{wanted: true, nextAttempt: c.fetchTime()}
		} else if e.evicted && fewer {
			e.nextAttempt, e.retryWait, e.evicted = c.fetchTime(), 0, false
		}
	}
	if gone {
		c.wakeWaitersLocked() // waiting runs fetch the archive that is gone
	}
	pause.Wake(c.wake)
}

// RetryNow repeats failed downloads immediately, because the agent is connected to a server again.
func (c *Cache) RetryNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.archives {
		if !e.ready && e.retryWait < invalidArchiveWait {
			e.nextAttempt, e.retryWait = c.fetchTime(), 0
		}
	}
	pause.Wake(c.wake)
}

// fetchTime returns the time at which to download a new archive, with a random delay. Random times spread the
// downloads of a fleet.
func (c *Cache) fetchTime() time.Time {
	if c.cfg.NoDelay {
		return time.Now()
	}
	return time.Now().Add(rand.N(fetchSpread))
}

// wakeWaitersLocked wakes all callers that wait for an archive. The caller must hold the lock.
func (c *Cache) wakeWaitersLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Dir returns the folder with an archive's extracted files, and first fetches a missing archive. While the archive is
// being fetched and has not failed yet, Dir waits until ctx ends. The error has the reason why the archive is missing.
func (c *Cache) Dir(ctx context.Context, sum Sum) (string, error) {
	dir, done, err := c.Acquire(ctx, sum)
	if err == nil {
		done()
	}
	return dir, err
}

// Acquire returns the folder of an extracted archive, like Dir, and protects the archive from eviction. The cache keeps
// the archive until done is called.
func (c *Cache) Acquire(ctx context.Context, sum Sum) (dir string, done func(), err error) {
	for {
		c.verifyFolder(sum)
		c.mu.Lock()
		e, changed := c.archives[sum], c.changed
		switch {
		case e == nil: // the facts have changed: another build is for this machine
			c.archives[sum] = &cachedArchive{wanted: true, nextAttempt: time.Now()}
			pause.Wake(c.wake)
		case e.ready:
			stale := time.Since(e.usedAt) > useTimePrecision
			if stale {
				e.usedAt = time.Now()
			}
			e.runningCommands++
			c.mu.Unlock()
			if stale {
				_ = os.Chtimes(c.archivePath(sum), time.Time{}, time.Now()) // keeps the time of use over a restart
			}
			return c.archivePath(sum), func() { c.releaseArchive(e) }, nil
		case e.missingReason != "":
			defer c.mu.Unlock()
			return "", nil, errors.New(e.missingReason)
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil, errors.New("the download is in progress")
		}
	}
}

// releaseArchive records that a command no longer uses its archive. The archive may then be evicted.
func (c *Cache) releaseArchive(e *cachedArchive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.runningCommands--; e.runningCommands == 0 && !e.wanted {
		c.evictArchives("")
	}
}

// Run downloads and extracts archives that checks need, until ctx ends.
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

// nextFetch returns the archive to download now, or the delay until the next download.
func (c *Cache) nextFetch() (Sum, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := longestRetryWait
	for sum, e := range c.archives {
		if e.ready || !e.wanted {
			continue
		}
		due := time.Until(e.nextAttempt)
		if due <= 0 {
			return sum, 0
		}
		wait = min(wait, due)
	}
	return "", wait
}

// invalidArchive is the error for an archive with the right hash but content that cannot be extracted. The cache does
// not download such an archive again.
type invalidArchive struct{ error }

// fetchArchive fetches and extracts one archive and records success or error in the cache.
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
			c.cfg.Ready(sum)
		}
	}()
	e := c.archives[sum]
	if e == nil { // no check needs the archive any more
		if err != nil {
			_ = os.Remove(c.archivePath(sum) + partSuffix)
			return
		}
		e = &cachedArchive{}
		c.archives[sum] = e
	}
	if err == nil {
		e.ready, e.bytes, e.usedAt, e.missingReason, e.retryWait, e.evicted, e.verifiedAt = true, bytes, time.Now(), "", 0, false, time.Now()
		c.cfg.Log.Info("asset ready", "sha512", sum[:12], "bytes", bytes, "took", time.Since(began))
		c.evictArchives(sum)
		if !e.ready {
			err = errors.New(e.missingReason)
		}
		return
	}
	e.missingReason, e.retryWait = err.Error(), min(max(firstRetryWait, 2*e.retryWait), longestRetryWait)
	if errors.As(err, new(invalidArchive)) {
		e.retryWait = invalidArchiveWait
	}
	e.nextAttempt = time.Now().Add(e.retryWait/2 + rand.N(e.retryWait))
	c.cfg.Log.Warn("cannot fetch an asset; the agent retries", "sha512", sum[:12], "in", time.Until(e.nextAttempt).Round(time.Second), "err", err)
}

// evictArchives removes unused archives, the least recently used first, until all others fit Config.Bytes. An archive
// is unused if no check needs it and no command runs from it. If the archives still do not fit, evictArchives removes
// the archive that has just arrived (fresh; empty: none). The caller holds the lock.
func (c *Cache) evictArchives(fresh Sum) {
	for {
		var all int64
		var oldest Sum
		held := false
		for sum, e := range c.archives {
			if !e.ready {
				continue
			}
			all += e.bytes
			held = held || !e.wanted && e.runningCommands > 0
			if !e.wanted && e.runningCommands == 0 && (oldest == "" || e.usedAt.Before(c.archives[oldest].usedAt)) {
				oldest = sum
			}
		}
		if all <= c.cfg.Bytes {
			return
		}
		out := cmp.Or(oldest, fresh)
		if out == "" || oldest == "" && held { // the end of a command that uses an old archive frees space
			return
		}
		e := c.archives[out]
		if out == fresh && e.wanted {
			e.ready, e.evicted, e.retryWait, e.nextAttempt = false, true, invalidArchiveWait, time.Now().Add(invalidArchiveWait)
			e.missingReason = fmt.Sprintf("the assets of %s have %s, more than the limit of %s", c.cfg.Whose, model.Size(all), model.Size(c.cfg.Bytes))
		} else {
			delete(c.archives, out)
		}
		c.removeArchive(out)
		if out == fresh {
			return
		}
	}
}

// removeArchive deletes the folder of an archive and its file list. It renames the folder first, so that a crash
// leaves no incomplete archive.
func (c *Cache) removeArchive(sum Sum) {
	_ = os.Remove(c.archivePath(sum) + listSuffix)
	if err := os.Rename(c.archivePath(sum), c.archivePath(sum)+temporarySuffix); err != nil {
		c.cfg.Log.Warn("cannot delete an asset", "sha512", sum[:12], "err", err)
		return
	}
	if err := os.RemoveAll(c.archivePath(sum) + temporarySuffix); err != nil {
		c.cfg.Log.Warn("cannot delete an asset completely", "sha512", sum[:12], "err", err)
	}
}

// archivePath returns the folder path of an extracted archive.
func (c *Cache) archivePath(sum Sum) string { return filepath.Join(c.cfg.Dir, sum) }

// fetchAndExtract fetches an archive, verifies its SHA-512 and extracts the archive into its folder. After a failed
// download the part file stays.
func (c *Cache) fetchAndExtract(ctx context.Context, sum Sum) (bytes int64, err error) {
	if err := os.MkdirAll(c.cfg.Dir, 0o755); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(c.archivePath(sum)+partSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := c.downloadArchive(ctx, sum, f); err != nil {
		return 0, err
	}
	size, err := verifySum(f, sum)
	if err == nil {
		bytes, err = c.extractArchive(sum, f, size)
	}
	if gone := os.Remove(f.Name()); err == nil && gone != nil && !errors.Is(gone, fs.ErrNotExist) { // Want may have removed it
		err = gone
	}
	return bytes, err
}

// extractArchive extracts an archive into a temporary folder, and renames that folder when its files are synced.
func (c *Cache) extractArchive(sum Sum, f *os.File, size int64) (bytes int64, err error) {
	fresh := c.archivePath(sum) + temporarySuffix
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
			return 0, fmt.Errorf("cannot extract the archive into %s: %w", c.cfg.Dir, err)
		}
		return 0, invalidArchive{fmt.Errorf("the archive is invalid: %w", err)}
	}
	if err := os.Chmod(fresh, 0o755); err != nil { // independent of the umask
		return 0, err
	}
	// A crash may have left a folder of this name that was not complete: move that folder away.
	if old := c.archivePath(sum) + ".old" + temporarySuffix; os.Rename(c.archivePath(sum), old) == nil {
		defer os.RemoveAll(old)
	}
	if err := os.Rename(fresh, c.archivePath(sum)); err != nil {
		return 0, err
	}
	if c.cfg.Look > 0 {
		if err := writeList(c.archivePath(sum)); err != nil {
			return 0, err
		}
	}
	return bytes, disk.OS{}.SyncDir(c.cfg.Dir)
}

// freeSpace returns how many bytes of disk space the cache may still use.
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

// diskFullError returns the error of a download that would fill the agent's disk reserve.
func (c *Cache) diskFullError(free int64) error {
	return fmt.Errorf("cannot extract the archive into %s: the disk has only %s free, and the agent reserves %s", c.cfg.Dir, model.Size(free), model.Size(c.cfg.Reserve))
}
