// Package asset keeps the archives of Assets in a folder, each in a file named by its SHA-512.
// A file with such a name is complete, has that sum, and is durable: an upload is written to a
// temporary file, checked, synced and only then renamed. Archives that no Asset names are
// removed after a while. No goroutines; one lock guards the table of names. Start at store.go.
package asset

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Sum is an archive's SHA-512, by which an asset names the archive.
type Sum = [64]byte

// unfinishedSuffix ends the name of an incomplete upload's temporary file.
const unfinishedSuffix = ".new"

// minFreeBytes is the disk space that an upload must leave free. The journal may use the same disk.
const minFreeBytes = 512 << 20

// Options holds the folder, file system and clock of a Store.
type Options struct {
	FS  disk.FS // default disk.OS{}
	Dir string
	Now func() time.Time
}

// Store keeps the archives of assets as files in a folder.
type Store struct {
	opts Options

	mu       sync.Mutex
	archives map[Sum]storedArchive
	number   int // number of the next temporary file
}

// storedArchive describes one stored archive, with its size, time of storing, and damage if any.
type storedArchive struct {
	size     int64
	storedAt time.Time // time of its storing; for an older archive the time of the start
	damaged  string    // description of its damage, which makes it count as absent; empty: undamaged
	file     int       // number of its file: a new upload of the archive gets another number
}

// Open opens the asset store in a folder, and lists the archives. It creates a missing folder and removes incomplete
// uploads.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{opts: o, archives: map[Sum]storedArchive{}}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("create the folder of assets: %w", err)
	}
	if err := o.FS.SyncDir(filepath.Dir(o.Dir)); err != nil {
		return nil, fmt.Errorf("sync the parent directory of the folder of assets: %w", err)
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list the files in the folder of assets: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(o.Dir, name)
		if strings.HasSuffix(name, unfinishedSuffix) {
			if err := o.FS.Remove(path); err != nil {
				return nil, fmt.Errorf("remove an incomplete upload that a crash left in the folder of assets: %w", err)
			}
			continue
		}
		sum, err := model.ParseAssetSum(name)
		if err != nil {
			continue // a foreign file
		}
		f, err := o.FS.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open the file of an asset archive: %w", err)
		}
		size, err := f.Size()
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read the size of the asset archive %s: %w", path, err)
		}
		s.archives[sum] = storedArchive{size: size, storedAt: o.Now()}
	}
	return s, nil
}

// Size returns the length of an archive in bytes. ok is false if the server has no such archive.
func (s *Store) Size(sum Sum) (bytes int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.archives[sum]
	return k.size, ok && k.damaged == ""
}

// Open opens an archive for reading. The caller closes it.
func (s *Store) Open(sum Sum) (io.ReadSeekCloser, error) {
	size, ok := s.Size(sum)
	if !ok {
		return nil, model.Errorf(model.NotFound, "the server has no archive %s", ShortSum(sum)).WithHint("upload the archive: muster asset add NAME FILE")
	}
	f, err := s.opts.FS.Open(s.path(sum))
	if err != nil {
		return nil, fmt.Errorf("open the file of an asset archive: %w", err)
	}
	return struct {
		*io.SectionReader
		io.Closer
	}{io.NewSectionReader(f, 0, size), f}, nil
}

// Put stores an uploaded archive if its SHA-512 is the expected sum, and returns its length. The archive is durable
// when Put returns. If the archive is already stored and undamaged, Put does not read r.
func (s *Store) Put(sum Sum, r io.Reader) (size int64, err error) {
	if size, ok := s.restartGracePeriod(sum); ok && s.Check(sum) == nil {
		return size, nil
	}
	fs, path := s.opts.FS, filepath.Join(s.opts.Dir, s.newFileName())
	f, err := fs.Create(path)
	if err != nil {
		return 0, s.addDiskHint(err)
	}
	got, size, err := s.copyArchive(f, r)
	if err == nil && got != sum {
		err = model.Errorf(model.Invalid, "the archive has the SHA-512 %s, expected %s", ShortSum(got), ShortSum(sum)).
			WithHint("the archive changed or was truncated during the upload, or the sum belongs to another file: sha512sum FILE")
	}
	if err == nil {
		err = s.addDiskHint(f.SyncData())
	}
	if closed := f.Close(); err == nil {
		err = s.addDiskHint(closed)
	}
	if err == nil {
		err = s.addDiskHint(fs.Rename(path, s.path(sum)))
	}
	if err != nil {
		_ = fs.Remove(path)
		return 0, err
	}
	if err := fs.SyncDir(s.opts.Dir); err != nil {
		return 0, s.addDiskHint(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.archives[sum] = storedArchive{size: size, storedAt: s.opts.Now(), file: s.number}
	return size, nil
}

// copyArchive writes the upload to a file and returns the SHA-512 and length of the upload.
func (s *Store) copyArchive(f disk.File, r io.Reader) (sum Sum, size int64, err error) {
	hash, buffer := sha512.New(), make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(r, buffer)
		if n > 0 {
			if size+int64(n) > model.MaxAssetBytes {
				return sum, size, model.Errorf(model.TooLarge, "the archive is larger than the limit of %s", model.Size(model.MaxAssetBytes)).WithHint("install the content of the archive as a package")
			}
			if free, err := s.opts.FS.Free(s.opts.Dir); err == nil && free < minFreeBytes {
				return sum, size, model.Errorf(model.Unavailable, "the disk of %s has only %s free", s.opts.Dir, model.Size(free)).WithHint("free disk space, or delete unused Assets")
			}
			hash.Write(buffer[:n])
			if _, err := f.WriteAt(buffer[:n], size); err != nil {
				return sum, size, s.addDiskHint(err)
			}
			size += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			hash.Sum(sum[:0])
			return sum, size, nil
		}
		if err != nil {
			return sum, size, model.Errorf(model.Unavailable, "the upload is incomplete: %w", err).WithHint("upload the archive again")
		}
	}
}

// addDiskHint adds a hint to a failed upload's error, with a command that shows free disk space.
func (s *Store) addDiskHint(err error) error {
	if err == nil {
		return nil
	}
	return model.Errorf(model.Unavailable, "store the archive in %s: %w", s.opts.Dir, err).WithHint("free disk space: df -h %s", s.opts.Dir)
}

// Grace is how long the server keeps an uploaded archive that no Asset names yet.
const Grace = time.Hour

// RemoveUnused removes archives to which no Asset refers, after their grace period.
func (s *Store) RemoveUnused(named func(Sum) bool) (removed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sum, k := range s.archives {
		if named(sum) || s.opts.Now().Sub(k.storedAt) < Grace {
			continue
		}
		if err := s.opts.FS.Remove(s.path(sum)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return removed, fmt.Errorf("remove the unused archive of an asset: %w", err)
		}
		delete(s.archives, sum)
		removed++
	}
	return removed, nil
}

// path returns the path of an archive's file.
func (s *Store) path(sum Sum) string { return filepath.Join(s.opts.Dir, hex.EncodeToString(sum[:])) }

// newFileName returns an unused name for a temporary file.
func (s *Store) newFileName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	return strconv.Itoa(s.number) + unfinishedSuffix
}

// restartGracePeriod restarts the grace period after which an archive without an Asset is removed. ok is false
// for a missing or damaged archive.
func (s *Store) restartGracePeriod(sum Sum) (size int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.archives[sum]
	if ok {
		k.storedAt = s.opts.Now()
		s.archives[sum] = k
	}
	return k.size, ok && k.damaged == ""
}

// ShortSum shortens the SHA-512 of an archive to its first 12 hexadecimal digits, for messages.
func ShortSum(sum Sum) string { return hex.EncodeToString(sum[:6]) + "…" }

// Check reads an archive and compares the content with its SHA-512. If the content differs, the archive is recorded as
// damaged. A damaged archive counts as absent from then on, so that it is uploaded or fetched again; its file stays
// until then, or until no Asset names the archive.
func (s *Store) Check(sum Sum) error {
	s.mu.Lock()
	file := s.archives[sum].file
	s.mu.Unlock()
	f, err := s.Open(sum)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return s.recordDamage(sum, file, "the file of the archive is missing")
		}
		return err
	}
	defer f.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, f); err != nil {
		return model.Errorf(model.Unavailable, "the server cannot read the archive %s: %w", ShortSum(sum), err)
	}
	if got := Sum(hash.Sum(nil)); got != sum {
		return s.recordDamage(sum, file, "its SHA-512 is "+ShortSum(got))
	}
	return nil
}

// recordDamage marks an archive as damaged, and returns an error about the damage. If a newer upload has replaced the
// file, the archive stays undamaged.
func (s *Store) recordDamage(sum Sum, file int, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.archives[sum]; ok && k.file == file {
		k.damaged = what
		s.archives[sum] = k
	}
	return damagedError(sum, what)
}

// damagedError returns an error that tells how an archive is damaged.
func damagedError(sum Sum, what string) error {
	return model.Errorf(model.NotFound, "the server's copy of the archive %s is damaged: %s", ShortSum(sum), what).WithHint("upload the archive: muster asset add NAME FILE")
}

// Damaged returns an error about the known damage of an archive, or nil for an undamaged archive.
func (s *Store) Damaged(sum Sum) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.archives[sum]; k.damaged != "" {
		return damagedError(sum, k.damaged)
	}
	return nil
}
