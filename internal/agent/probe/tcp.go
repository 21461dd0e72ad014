package probe

import (
	"context"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func tcpProbe() Probe {
	return Probe{
		Name: "tcp", Summary: "Whether a TCP port accepts connections, how fast, and what it answers.",
		Args: []Arg{
			{Name: "address", Type: Text, Must: true, Help: "host:port"},
			{Name: "send", Type: Text, Help: `text to send; \r and \n are understood`},
			{Name: "expect", Type: Text, Help: "text that must come back"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
		},
		run: runTCP,
	}
}

func runTCP(ctx context.Context, env *Env, a args, r *report) {
	address := a.text("address")
	began := env.now()
	conn, err := env.dial(ctx, "tcp", address)
	if err != nil {
		r.add(model.Critical, "%v", err)
		return
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	_ = conn.SetDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if send := a.text("send"); send != "" {
		if _, err := conn.Write([]byte(strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(send))); err != nil {
			r.add(model.Critical, "%s: %v", address, err)
			return
		}
	}
	if expect := a.text("expect"); expect != "" {
		var got []byte
		buf := make([]byte, 4096)
		for !strings.Contains(string(got), expect) {
			n, err := conn.Read(buf)
			got = append(got, buf[:n]...)
			if strings.Contains(string(got), expect) {
				break
			}
			if err != nil || len(got) > 64<<10 {
				r.add(model.Critical, "%s: %q did not come; got %q", address, expect, got[:min(len(got), 200)])
				return
			}
		}
	}
	judgeLatency(a, r, env.now().Sub(began), address+" answers")
}

func judgeLatency(a args, r *report, took time.Duration, what string) {
	warn, hasWarn := a.duration("warn")
	crit, hasCrit := a.duration("crit")
	r.add(statusAbove(took, warn, hasWarn, crit, hasCrit), "%s in %s", what, ageText(took))
	r.measure("time", took.Seconds(), "s", upTo(warn.Seconds(), hasWarn), upTo(crit.Seconds(), hasCrit), 0, nan())
}
