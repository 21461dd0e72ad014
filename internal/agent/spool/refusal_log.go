package spool

import (
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

const (
	// refusalLogEvery is the least time between two log lines about one code of refusals, in ms.
	refusalLogEvery = uint64(time.Minute / time.Millisecond)
	// maxRefusalCodes bounds the codes that are counted: a server may send any.
	maxRefusalCodes = 32
)

// refusalLog reports refusals of the server in the log, once per code and minute, with their count.
type refusalLog struct {
	last map[string]refusalCount // by code
}

// refusalCount is the time of the last log line, on the boot clock in ms, and the refusals since then.
type refusalCount struct {
	at    uint64
	since int
}

func (l *refusalLog) report(log *slog.Logger, nowMs uint64, r *wire.RefusedSignal) {
	c, logged := l.last[r.Code]
	c.since++
	if !logged || nowMs-c.at >= refusalLogEvery {
		log.Warn("server refused results", "code", r.Code, "count", c.since, "number", r.Number, "reason", r.Reason,
			"hint", "they are lost; see the limits: muster status, muster describe namespace NAME")
		c = refusalCount{at: nowMs}
	}
	if l.last == nil {
		l.last = map[string]refusalCount{}
	}
	if logged || len(l.last) < maxRefusalCodes {
		l.last[r.Code] = c
	}
}
