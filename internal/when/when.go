// Package when says at which times a check is due on a node: each node has its own offset
// within the interval, the same wherever it is computed. Pure functions; clocks are passed in.
package when

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Phase is the offset of a check within its interval on one node: fixed by the two ids.
func Phase(node uuid.UUID, check model.CheckID, interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	var key [20]byte
	copy(key[:], node[:])
	binary.LittleEndian.PutUint32(key[16:], uint32(check))
	return time.Duration(xxhash.Sum64(key[:]) % uint64(interval))
}

// OnGrid is the first time after now at which the clock modulo interval is phase.
func OnGrid(now, interval, phase time.Duration) time.Duration {
	next := now - now%interval + phase
	if next <= now {
		next += interval
	}
	return next
}

// ParseCron checks five fields and the zone (empty: the machine's).
func ParseCron(expr, zone string) (*time.Location, error) {
	if len(strings.Fields(expr)) != 5 && !strings.HasPrefix(expr, "@") || !gronx.IsValid(expr) {
		return nil, fmt.Errorf("cron %q: want five fields (minute hour day month weekday), such as \"*/5 8-18 * * 1-5\"", expr)
	}
	if zone == "" {
		return time.Local, nil
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", zone, err)
	}
	return location, nil
}

// Next is when a check is due after now, as the agent plans it, by the beginning of its last
// run: intervals are kept on a clock that nobody sets, cron on the machine's wall clock, which
// is ahead of ours by skew. Zero: never.
func Next(interval time.Duration, cron, zone string, last, now time.Time, skew time.Duration) time.Time {
	if cron == "" {
		if interval <= 0 || last.IsZero() {
			return time.Time{}
		}
		return last.Add((now.Sub(last)/interval + 1) * interval)
	}
	location, err := ParseCron(cron, zone)
	if err != nil {
		return time.Time{}
	}
	next, err := NextCron(cron, location, now.Add(skew))
	if err != nil {
		return time.Time{}
	}
	return next.Add(-skew)
}
