// Package record makes a recorded stream (internal/load/stream) of a server's journal: the journal
// is a recording already, and only numbers leave it. A running server's is followed as it grows.
//
// Signals stand in the file by the time when they ran, and come in a little later: what came in the
// last ten seconds is held back and sorted. Beside that memory grows with the fleet (its
// nodes, their checks), not with the recording.
//
// No goroutines. Start reading at Journal, then recorder.go.
package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options say what is recorded.
type Options struct {
	Journal string    // its folder
	Since   time.Time // only what the server received from then on; zero: all that is there
	Until   time.Time // and before then; zero: up to the end of what is there

	// More waits for the journal to grow, and says whether it is worth another look. It is asked
	// at the end of what is there, while Until is not reached. nil: what is there is all.
	More func() bool
	Seen func(received time.Time, signals uint64) // how far it is, often; nil: nobody asks
}

// Folder is the journal's folder of a data folder, or the folder itself where it is one.
func Folder(data string) string {
	if _, err := os.Stat(filepath.Join(data, "FORMAT")); err == nil {
		return data
	}
	return filepath.Join(data, "journal")
}

// Journal writes a file of what is in a journal. A time without signals is an Invalid error.
func Journal(ctx context.Context, o Options, out io.Writer) (*stream.Head, error) {
	w, err := stream.NewWriter(out)
	if err != nil {
		return nil, err
	}
	r := newRecorder(w)
	enough := errors.New("enough")
	more := func() bool { return o.More != nil && o.More() }
	err = journal.Follow(ctx, o.Journal, journal.Options{}, more, func(c journal.Commit) error {
		received := c.Received()
		if !o.Until.IsZero() && received >= o.Until.UnixNano() {
			return enough
		}
		if !o.Since.IsZero() && received < o.Since.UnixNano() {
			return nil
		}
		if o.Seen != nil {
			o.Seen(time.Unix(0, received), r.head.Signals)
		}
		return r.commit(c)
	})
	if errors.Is(err, journal.ErrTrimmed) {
		return nil, model.Errorf(model.Conflict, "the server cut its journal before all of it was read: %w", err).WithHint("record less at once, or from now on: --for 10m")
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, model.Errorf(model.Forbidden, "%w", err).WithHint("the folder is its owner's: type muster load record as that user, with sudo -u")
	}
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	h, err := r.end()
	if err != nil {
		return nil, err
	}
	return h, w.Close(h)
}

// commit takes what agents sent.
func (r *recorder) commit(c journal.Commit) error {
	if err := r.settle(c.Received() / 1e6); err != nil {
		return err
	}
	for _, section := range c.Sections() {
		err := c.Entries(section, func(data []byte) error {
			if len(data) == 0 || wire.RecordKind(data[0]) != wire.RecordBatch {
				return nil
			}
			if err := r.record.Decode(data); err != nil {
				return err
			}
			return r.batch(r.record.Node, r.record.Batch, c.Received())
		})
		if err != nil {
			return model.Errorf(model.Internal, "commit %d of the journal: %w", c.Position().Number, err)
		}
	}
	return nil
}
