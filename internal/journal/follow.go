package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Follow reads the commits of a journal, oldest first, also while another process has it
// open: it takes no lock and changes nothing. Of the options it uses FS. Each commit is checked
// against the one before; damage is a *DamageError, a folder without a journal is NotFound.
//
// At the end of what there is it asks more, which waits and says whether to look again.
// What it hands out may not be on disk yet, and after a write that failed an entry may come
// again in another commit: who counts has to know what it has seen. A segment that was cut
// before it was read is ErrTrimmed.
func Follow(ctx context.Context, dir string, o Options, more func() bool, fn func(Commit) error) error {
	f := &follower{dir: dir, opts: o.withDefaults(dir)}
	for {
		if err := f.pass(ctx, fn); err != nil {
			return err
		}
		if !more() {
			return nil
		}
	}
}

// follower is where a reader stands.
type follower struct {
	dir     string
	opts    Options
	folder  *folder
	commits sync.Pool
	segment uint64     // number in the name of the segment that it is in; zero: it has not begun
	offset  int64      // there, of the next commit
	before  checkpoint // state that the next commit continues
}

// pass reads all that is there now.
func (f *follower) pass(ctx context.Context, fn func(Commit) error) (err error) {
	if f.folder, err = readFolder(f.opts.FS, f.dir); err != nil {
		return err
	}
	if f.folder == nil {
		return model.Errorf(model.NotFound, "%q holds no journal", f.dir).WithHint("name the server's data folder: --data DIR")
	}
	segments, err := listSegments(&f.opts, f.dir)
	if err != nil {
		return err
	}
	for i, s := range segments {
		limit := uint64(math.MaxUint64)
		if i+1 < len(segments) {
			limit = segments[i+1].first
		}
		if s.first < f.segment {
			continue
		}
		if err := f.read(ctx, s, limit, fn); err != nil {
			return err
		}
	}
	return nil
}

// read reads one segment from where the follower stands in it, as far as it is whole.
func (f *follower) read(ctx context.Context, s *segment, limit uint64, fn func(Commit) error) error {
	file, err := f.opts.FS.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if f.segment == 0 {
			return nil // cut since the folder was listed: begin with the next one
		}
		return fmt.Errorf("read journal segment %q: %w", s.path, ErrTrimmed)
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	w, err := newWalker(file, f.folder.known)
	if errors.Is(err, errVersion) {
		return newer(s.path)
	}
	if err == nil && f.segment != 0 && w.before.number > f.before.number {
		return fmt.Errorf("read journal segment %q: %w: %s", s.path, ErrTrimmed, commits(f.before.number+1, w.before.number))
	}
	if err == nil && s.first == f.segment {
		w.offset, w.before = f.offset, f.before
	}
	w.limit = limit
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.segment, f.offset, f.before = s.first, w.offset, w.before
		var h header
		var raw []byte
		if h, raw, err = w.next(); err == nil {
			if err := f.hand(h, raw, fn); err != nil {
				return err
			}
		}
	}
	return f.ended(s, w, limit, err)
}

// ended says whether a segment may end where it does.
func (f *follower) ended(s *segment, w *walker, limit uint64, why error) error {
	last := limit == math.MaxUint64
	damaged := func(first, until uint64) error {
		return (&DamageError{File: s.path, Offset: w.offset, First: first, Last: until, After: instant(w.before.received), Reason: why}).forPeople(&f.opts)
	}
	switch bad := (errBad{}); {
	case errors.Is(why, io.EOF) && (last || w.before.number+1 >= limit):
		return nil
	case errors.Is(why, errVersion):
		return newer(s.path)
	case errors.Is(why, io.EOF):
		why = errShort
		return damaged(w.before.number+1, limit-1)
	case !errors.As(why, &bad):
		return fmt.Errorf("read journal segment %q: %w", s.path, why)
	case !last:
		return damaged(w.before.number+1, limit-1)
	case w.offset == 0:
		return damaged(s.first, ToEnd)
	}
	first, offset := w.before.number+1, w.offset
	later, found, err := w.skip()
	switch {
	case err != nil:
		return fmt.Errorf("read journal segment %q: %w", s.path, err)
	case found:
		w.offset = offset
		return damaged(first, later.number-1)
	}
	return nil // being written, or torn when the process stopped
}

// hand gives one commit that was read to fn.
func (f *follower) hand(h header, raw []byte, fn func(Commit) error) error {
	c := newCommit(&f.commits)
	defer c.Release()
	c.log = f.folder.incarnation.ID
	if err := c.parse(h, raw[commitHeaderSize:]); err != nil {
		return fmt.Errorf("read commit %d: %w", h.number, err)
	}
	return fn(c)
}
