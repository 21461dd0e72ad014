package load

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// Follow plays one part (Config.Part) of a run that another loader leads, and hands over
// what it measured. It makes no report: it is an error if the part could not be played to
// the end.
func Follow(ctx context.Context, cfg Config, lead Lead) error {
	cfg.follows = true
	cfg.Bare = cmp.Or(cfg.Bare, Resident())
	r, err := readyRun(cfg)
	if err != nil {
		return err
	}
	r.lead, r.log = lead, observe.NewCopied(lead.Line)
	r.log.Checks().OnSecond = r.seen
	plan, err := r.planHash()
	if err != nil {
		return err
	}
	if err := lead.Prepared(ctx, plan); err != nil {
		return err
	}
	return r.attend(ctx)
}

// attend is a part of a run from top to bottom: as do, without what only one loader does.
func (r *run) attend(ctx context.Context) error {
	rep := newReport(r.cfg)
	idle := r.usage()
	var watching sync.WaitGroup
	live, stop := context.WithCancel(ctx)
	defer watching.Wait()
	defer stop()
	w := newWatch(r, rep)
	watching.Go(func() { w.watch(live) })
	crew := r.open(ctx)
	defer crew.leave()
	if err := r.waitReady(ctx, rep); err != nil {
		return err
	}
	rep.connected(r, idle)
	r.lead.Hear(r.another, r.renamedTo)
	begin, err := r.lead.Ready(ctx, Arrived{Connect: rep.ConnectSeconds, Ready: rep.ReadySeconds, Bytes: rep.AgentBytes, Goroutines: rep.Goroutines})
	if err != nil {
		return err
	}
	at := int64(begin.Sub(r.epoch))
	if late := r.now() - at; late > 0 {
		return tooLate(late, "the run begins")
	}
	p, err := r.perform(ctx, crew, at)
	if err != nil {
		return err
	}
	defer p.closeHouse()
	p.playing.Wait()
	watching.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	r.drain(ctx)
	p.closeHouse()
	p.script.look()
	w.finish()
	ledgers := r.ledgers()
	for _, line := range ledgers.Lines(0) {
		r.log.Append(line)
	}
	return r.lead.Finish(ctx)
}

// tooLate is the error of a loader that heard of something too late to do it with the others.
func tooLate(late int64, what string) error {
	busy := ""
	if load := usage.Machine().Load; load != "" {
		busy = " (load " + load + ")"
	}
	return model.Errorf(model.Unavailable, "heard %s too late that %s: the connection to the loader that leads is too slow, or this machine is too busy%s", time.Duration(late).Round(time.Millisecond), what, busy)
}

// another is the score that the lead plays from an instant on. One that only ends sooner is played
// however late it is heard of: what was sent meanwhile is in the ledger, and is not measured.
func (r *run) another(from time.Duration, spans []observe.Part) error {
	begin := r.begin.Load()
	s, err := scoreOf(spans, begin, len(r.cfg.Scenario.Phases))
	if err != nil {
		return err
	}
	if late := r.now() - begin - int64(from); begin == 0 || late > 0 && !s.endsSooner(r.present()) {
		return tooLate(late, "a phase ends")
	} else if late > 0 {
		r.late.Store(late)
	}
	r.follow(s)
	return nil
}

// renamedTo gives an agent the name that its node has now.
func (r *run) renamedTo(member int, name string) {
	if member < 0 || member >= len(r.seats) || r.seats[member] == nil {
		return
	}
	a := r.seats[member]
	a.mu.Lock()
	a.name = name
	a.mu.Unlock()
}
