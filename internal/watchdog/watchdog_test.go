package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// syntheticResult records status and text of a synthetic result that the watchdog passed to a fake sender. It
// has a status and a text.
type syntheticResult struct {
	status model.Status
	text   string
}

// TestSyntheticResultReportsPreviousOutcome makes the delivery of synthetic results fail, and expects the next
// result to report the failure. An outcome is, for example, a failed delivery.
func TestSyntheticResultReportsPreviousOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		delay time.Duration // until it is delivered; negative: never
		send  error
		call  error
		own   *syntheticResult
		next  syntheticResult // what the second result says
	}{
		"arrives":     {delay: 40 * time.Millisecond, next: syntheticResult{model.OK, "the last synthetic result took 40ms from its session to its delivery"}},
		"no way in":   {send: errors.New("connection refused"), own: &syntheticResult{model.Critical, "connection refused"}, next: syntheticResult{model.Critical, "connection refused"}},
		"undelivered": {delay: -1, own: &syntheticResult{model.Critical, "acknowledged but not delivered within 1m0s"}, next: syntheticResult{model.Critical, "not delivered within"}},
		"uncalled":    {call: errors.New("status 404"), own: &syntheticResult{model.Warning, "the call of watchdog-url failed: status 404"}, next: syntheticResult{model.Warning, "status 404"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var sent []syntheticResult
				var own []syntheticResult
				called := 0
				var w *Watchdog
				w = New(Options{
					Now: time.Now, Logger: slog.New(slog.DiscardHandler),
					Send: func(_ context.Context, status model.Status, output string) error {
						sent = append(sent, syntheticResult{status, output})
						if len(sent) == 2 {
							cancel()
						}
						if c.send == nil && c.delay >= 0 {
							time.AfterFunc(c.delay, func() { w.ConfirmDelivery("another"); w.ConfirmDelivery(output); w.ConfirmDelivery(output) })
						}
						return c.send
					},
					Record: func(_ context.Context, status model.Status, output string) error {
						own = append(own, syntheticResult{status, output})
						return nil
					},
					Call: func(context.Context) error { called++; return c.call },
				})
				testenv.NoError(t, w.Run(ctx))
				if len(sent) != 2 || sent[0].status != model.OK || sent[1].status != c.next.status || !strings.Contains(sent[1].text, c.next.text) {
					t.Errorf("sent %v", sent)
				}
				switch {
				case c.own == nil && len(own) > 0:
					t.Errorf("recorded past the sessions: %v", own)
				case c.own != nil && (len(own) == 0 || own[0].status != c.own.status || !strings.Contains(own[0].text, c.own.text)):
					t.Errorf("recorded %v, want %v", own, *c.own)
				}
				if want := c.send == nil && c.delay >= 0; (called == 1) != want {
					t.Errorf("the address outside was called %d times", called)
				}
			})
		})
	}
}
