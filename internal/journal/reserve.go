package journal

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

const reserveFile = "RESERVE"

// reserve is a file that holds disk space back. When the disk is full it is deleted, so that snapshots
// can be written and the log be cut; commits wait until it can be allocated again. A disk with less
// free space than the reserve counts as full. The committer owns it.
type reserve struct {
	fs     disk.FS
	dir    string
	size   int64 // bytes; zero: there is no reserve
	margin int64 // bytes that must be free besides
	log    *slog.Logger
	held   bool
}

// allocate allocates the reserve where it is missing. An error says that the disk is full.
func (r *reserve) allocate() error {
	if r.size == 0 || r.held {
		return nil
	}
	path := filepath.Join(r.dir, reserveFile)
	if f, err := r.fs.Open(path); err == nil {
		size, err := f.Size()
		_ = f.Close()
		if err == nil && size == r.size {
			r.held = true
			return nil
		}
	}
	_ = r.fs.Remove(path) // of another size: its space counts as free
	need := r.size + r.margin
	if free, err := r.fs.Free(r.dir); err == nil && free < need {
		return fmt.Errorf("disk is full: %d MiB free in %q, the journal needs %d MiB", free>>20, r.dir, need>>20)
	}
	f, err := r.fs.Create(path)
	if err != nil {
		return fmt.Errorf("allocate the journal's reserve: %w", err)
	}
	err = f.Allocate(r.size)
	_ = f.Close()
	if err != nil {
		_ = r.fs.Remove(path)
		return fmt.Errorf("allocate the journal's reserve: %w", err)
	}
	r.held = true
	return nil
}

// release deletes the reserve where cause is a full disk.
func (r *reserve) release(cause error) {
	if !r.held || !disk.IsFull(cause) {
		return
	}
	r.held = false
	if err := r.fs.Remove(filepath.Join(r.dir, reserveFile)); err != nil {
		r.log.Warn("journal reserve was not released", "err", err)
		return
	}
	r.log.Warn("disk is full: journal released its reserve", "bytes", r.size)
}
