package probe

import (
	"context"
	"runtime"
	"time"

	"github.com/beevik/ntp"

	"github.com/muster-fleet/muster/internal/model"
)

func clockProbe() Probe {
	return Probe{
		Name: "clock", Summary: "How far this machine's clock is off, by an NTP server, else by the Muster server, else by the kernel.",
		Args: []Arg{
			{Name: "server", Type: Text, Help: "NTP server (host or host:port); default: compare with the Muster server"},
			{Name: "warn", Type: Duration, Default: "1s", Help: "warning above this offset"},
			{Name: "crit", Type: Duration, Default: "10s", Help: "critical above this offset"},
		},
		run: runClock,
	}
}

// offText is how far a clock is off, for people.
func offText(offset time.Duration) string {
	if offset < 0 {
		return ageText(-offset) + " behind"
	}
	return ageText(offset) + " ahead"
}

func runClock(ctx context.Context, env *Env, a args, r *report) {
	offset, by, ok := time.Duration(0), "", false
	if server := a.text("server"); server != "" {
		timeout := 5 * time.Second
		if deadline, has := ctx.Deadline(); has {
			timeout = min(timeout, time.Until(deadline))
		}
		answer, err := ntp.QueryWithOptions(server, ntp.QueryOptions{Timeout: timeout})
		if err == nil {
			err = answer.Validate()
		}
		if err != nil {
			r.add(model.Unknown, "NTP server %s: %v", server, err)
			return
		}
		offset, by, ok = -answer.ClockOffset, "NTP server "+server, true
	}
	if !ok && env.ServerOffset != nil {
		offset, ok = env.ServerOffset()
		by = "the Muster server"
	}
	kernel, synced, err := kernelClock()
	switch {
	case !ok && err != nil:
		addUnsupported(r, runtime.GOOS, err)
		return
	case !ok && !synced:
		r.add(model.Warning, "the clock is not synchronised, and there is no server to compare it with")
		return
	case !ok:
		offset, by = kernel, "the kernel's time discipline"
	}
	warn, hasWarn := a.duration("warn")
	crit, hasCrit := a.duration("crit")
	status := statusAbove(max(offset, -offset), warn, hasWarn, crit, hasCrit)
	mend := ""
	if status != model.OK {
		mend = "; mend it on that machine: timedatectl set-ntp true"
	}
	r.add(status, "%s, says %s%s", offText(offset), by, mend)
	symmetric := func(d time.Duration) *model.Range {
		return &model.Range{Start: -d.Seconds(), End: d.Seconds()}
	}
	r.measure("offset", offset.Seconds(), "s", symmetric(warn), symmetric(crit), nan(), nan())
}
