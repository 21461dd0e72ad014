package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
)

// Read implements Journal. Each commit is checked against the one before while it
// is read; damage is a *DamageError.
func (l *Log) Read(ctx context.Context, from Position, fn func(Commit) error) error {
	return l.read(ctx, from, false, fn)
}

// ReadUndamaged reads like Read and skips damaged commits, so that numbers are missing. It is for a
// reader that can use the rest, such as a spool.
func (l *Log) ReadUndamaged(ctx context.Context, from Position, fn func(Commit) error) error {
	return l.read(ctx, from, true, fn)
}

func (l *Log) read(ctx context.Context, from Position, pass bool, fn func(Commit) error) error {
	from, err := l.Resolve(from)
	if err != nil {
		return err
	}
	segments, head, err := l.readable(from.Number)
	if err != nil {
		return err
	}
	for _, s := range segments {
		err := l.readSegment(ctx, &s, from.Number, min(s.last, head), pass, fn)
		if damage := (*DamageError)(nil); pass && (errors.As(err, &damage) || errors.Is(err, ErrTrimmed)) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FolderDeleted returns whether the log's folder was deleted or emptied while the log is open: later
// commits are lost.
func (l *Log) FolderDeleted() bool {
	f, err := l.opts.FS.Open(filepath.Join(l.dir, formatFile))
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// readable returns copies of the segments with commits above from, and the number of the head.
func (l *Log) readable(from uint64) ([]segment, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, 0, ErrClosed
	case from > l.head.number:
		return nil, 0, ErrAhead
	case from+1 < l.segments[0].first:
		return nil, 0, ErrTrimmed
	}
	var list []segment
	for _, s := range l.segments {
		if s.last > from && s.last >= s.first {
			list = append(list, *s) // its marks are only appended to
		}
	}
	return list, l.head.number, nil
}

func (l *Log) readSegment(ctx context.Context, s *segment, from, to uint64, pass bool, fn func(Commit) error) error {
	file, err := l.opts.FS.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrTrimmed // cut meanwhile
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	w, err := newWalker(file, l.folder.isKnown)
	if err == nil {
		if at, known := s.seek(from + 1); known && at > segmentHeaderSize {
			w.offset, w.free = at, true
		}
		w.limit = to + 1
	}
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var h header
		var raw []byte
		h, raw, err = w.next()
		if bad := (errBad{}); pass && errors.As(err, &bad) {
			if _, found, skipErr := w.skip(); skipErr != nil || found {
				err, raw = skipErr, nil
			}
		}
		if err != nil || raw == nil || h.number <= from {
			continue
		}
		if err := deliverCommit(&l.commits, l.folder.incarnation.ID, h, raw, fn); err != nil {
			return err
		}
	}
	switch bad := (errBad{}); {
	case errors.Is(err, io.EOF) && w.before.number >= to:
		return nil
	case errors.Is(err, io.EOF):
		err = errShort
	case !errors.As(err, &bad):
		return fmt.Errorf("read journal segment %q: %w", s.path, err)
	}
	return (&DamageError{
		File: s.path, Offset: w.offset, First: w.before.number + 1, Last: to,
		After: instant(w.before.received), Reason: err,
	}).withHint(&l.opts)
}

// deliverCommit decodes a commit of incarnation log and passes it to fn. raw is header and body.
func deliverCommit(pool *sync.Pool, log uint64, h header, raw []byte, fn func(Commit) error) error {
	c := newCommit(pool)
	defer c.Release()
	c.log = log
	if err := c.parse(h, raw[commitHeaderSize:]); err != nil {
		return fmt.Errorf("read commit %d: %w", h.number, err)
	}
	return fn(c)
}
