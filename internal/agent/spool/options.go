package spool

import (
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// Options has the settings of a Spool; zero values are the defaults.
type Options struct {
	MaxBytes  int64         // on disk; half of it holds signals; default 64 MiB
	MaxAge    time.Duration // of a signal; default 24 h
	LiveGrace time.Duration // time after a session in which new signals are still live; default 10 s
	Linger    time.Duration // between two syncs of the disk; default 500 ms, negative: none
	Known     bool          // the agent had a session before: an empty spool was deleted, which a gap reports

	FS     disk.FS   // default disk.OS{}
	Clock  Clock     // required
	Rand   io.Reader // for stream ids; default crypto/rand
	Logger *slog.Logger
}

// Clock has the agent's clocks.
type Clock interface {
	// BootMs is milliseconds since the machine's start, time asleep included: the
	// clock of Signal.AtMs.
	BootMs() uint64
	// BootID changes with every start of the machine.
	BootID() string
	// WallMs is Unix milliseconds; used only across a reboot.
	WallMs() int64
}

const (
	defaultMaxBytes = 64 << 20
	// maxItems bounds the index in memory, whatever the signals' size.
	maxItems = 250_000
	// memoryBytes bounds the newest signals in memory.
	memoryBytes = 1 << 20
	// itemOverhead is counted for each signal beside its own bytes.
	itemOverhead = 16
)

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 24 * time.Hour
	}
	if o.LiveGrace <= 0 {
		o.LiveGrace = 10 * time.Second
	}
	if o.Linger == 0 {
		o.Linger = 500 * time.Millisecond
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
