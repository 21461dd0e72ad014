package loadcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/record"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// recording is what `muster load record` was told.
type recording struct {
	data, since, until, out string
	length                  time.Duration
	over                    overwrite
}

func recordCommand() *cobra.Command {
	var r recording
	cmd := &cobra.Command{
		Use:   "record --data DIR -o FILE",
		Short: "Record what a server's agents send, for a scenario that plays it again",
		Long: `Reads a server's journal and writes a recorded stream: when which node sent a result of which check, with
which status and how long an output. Nodes and checks become numbers; names, outputs, labels and commands
are never in it. The server may run meanwhile or not; a copy of its journal will do.

Without times, all that the journal holds is recorded. How far back that goes is for the server to say: it
lets go of what its snapshots have. --for listens to a server that runs, from now on; Ctrl-C ends that
earlier.
docs/load-reference.md says how a scenario plays it, docs/stream-format.md what is in it.`,
		Example: "  muster load record --data /var/lib/muster --for 1h -o monday.stream\n" +
			"  muster load record --data ./muster-data --since 10m -o last.stream\n" +
			"  muster load record --data copy --since 2026-11-23T08:00:00Z --until 2026-11-23T09:00:00Z -o eight.stream",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return r.record(cmd, time.Now()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.data, "data", "./muster-data", "the server's data folder, or the folder of its journal; who owns it may read it")
	f.StringVarP(&r.out, "out", "o", "", "the file to write")
	r.over.add(f)
	f.StringVar(&r.since, "since", "", "leave out what came in before: a time (2026-11-23T08:00:00Z, or 2026-11-23 08:00 of here), or so long ago (10m)")
	f.StringVar(&r.until, "until", "", "leave out what came in from then on; a time to come is waited for")
	f.DurationVar(&r.length, "for", 0, "so long from --since on; without --since from now on")
	return cmd
}

// options are its times, made absolute.
func (r *recording) options(now time.Time) (o record.Options, err error) {
	o.Journal = record.Folder(r.data)
	if o.Since, err = moment("since", r.since, now); err != nil {
		return o, err
	}
	if o.Until, err = moment("until", r.until, now); err != nil {
		return o, err
	}
	switch {
	case r.length < 0:
		return o, model.Errorf(model.Invalid, "--for %s: want a length, such as 10m", r.length)
	case r.length > 0 && r.until != "":
		return o, model.Errorf(model.Invalid, "--for and --until both say when it ends: leave one out")
	case r.length > 0:
		if o.Since.IsZero() {
			o.Since = now
		}
		o.Until = o.Since.Add(r.length)
	case !o.Until.IsZero() && !o.Since.Before(o.Until):
		return o, model.Errorf(model.Invalid, "--since %s is not before --until %s", r.since, r.until)
	}
	return o, nil
}

// moment is a time, or so long ago.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := model.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-time.Duration(ago)), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, model.Errorf(model.Invalid, "--%s %q is no time", flag, text).WithHint("--%s 2026-11-23T08:00:00Z, --%s '2026-11-23 08:00', or --%s 10m for ten minutes ago", flag, flag, flag)
}

func (r *recording) record(cmd *cobra.Command, now time.Time) error {
	o, err := r.options(now)
	if err == nil && r.out == "" {
		err = model.Errorf(model.Invalid, "which file is to be written?").WithHint("name it: -o last.stream")
	}
	if err == nil {
		err = r.over.mayWrite(r.out)
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	reading := ctx
	if o.Until.After(now) {
		o.More = listen(ctx, o.Until)
		o.Seen = told(cmd.ErrOrStderr(), now)
		reading = context.WithoutCancel(ctx) // who ends it keeps what there is
		fmt.Fprintf(cmd.ErrOrStderr(), "listening until %s; Ctrl-C ends it earlier\n", o.Until.Format(time.RFC3339))
	}
	beside := r.out + ".new"
	file, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return model.Errorf(model.Invalid, "write the stream: %w", err)
	}
	h, size, err := write(reading, o, file)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(beside, r.out)
	}
	if err != nil {
		_ = os.Remove(beside)
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s (%s): %s\n", r.out, model.Size(size).Approximate(), scenario.StreamInWords(h))
	fmt.Fprintf(cmd.OutOrStdout(), "play it: agents: [{name: recorded, recorded: {file: %s, times: 1}}]\n", r.out)
	return nil
}

// write fills the file.
func write(ctx context.Context, o record.Options, file *os.File) (h *stream.Head, size int64, err error) {
	out := bufio.NewWriterSize(file, 256<<10)
	if h, err = record.Journal(ctx, o, out); err != nil {
		return nil, 0, err
	}
	if err := out.Flush(); err != nil {
		return nil, 0, fmt.Errorf("write the stream: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("write the stream: %w", err)
	}
	return h, info.Size(), nil
}

// listen waits for more, until a time and a little longer: what was received before it may
// still be on its way to the disk. Who ends it gets what came in since the last look, too.
func listen(ctx context.Context, until time.Time) func() bool {
	const look, after = 250 * time.Millisecond, 5 * time.Second
	ended := false
	return func() bool {
		if ended {
			return false
		}
		ended = pause.For(ctx, look) != nil
		return ended || time.Now().Before(until.Add(after))
	}
}

// told says now and then how far it is.
func told(out io.Writer, last time.Time) func(time.Time, uint64) {
	return func(received time.Time, signals uint64) {
		if now := time.Now(); now.Sub(last) >= 10*time.Second {
			last = now
			fmt.Fprintf(out, "%d results, up to %s\n", signals, received.Format(time.TimeOnly))
		}
	}
}
