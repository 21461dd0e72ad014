package play

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// View calls a function with each event state of a server, in any order.
type View func(ctx context.Context, fn func(observe.EventState) error) error

// StatesHandler answers with one line of ids and counters for each event state, to compare with the ledger. It belongs
// on the admin listener.
func StatesHandler(view event.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriterSize(w, 64<<10)
		defer out.Flush()
		for q := (event.Query{Limit: 1000, ByNode: true}); ; {
			page, err := view.List(r.Context(), q)
			if err != nil {
				return
			}
			for i := range page.States {
				s := &page.States[i]
				expired := 0
				if s.Expired {
					expired = 1
				}
				fmt.Fprintf(out, "%d %d %d %d %d %d %d %d\n",
					s.Node, s.Check, s.Results, s.Stream, s.Number, Digest(s.Status, s.Output), expired, uint32(s.Order))
			}
			if q.After = page.Next; q.After == "" {
				fmt.Fprintln(out, "end")
				return
			}
		}
	})
}

// HTTPView returns a View of the answers of StatesHandler.
func HTTPView(url string) View {
	return func(ctx context.Context, fn func(observe.EventState) error) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("read states from %s: %s", url, resp.Status)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if lines.Text() == "end" {
				return nil
			}
			k, ok := parseState(lines.Text())
			if !ok {
				return fmt.Errorf("read states from %s: line %q is not eight numbers", url, lines.Text())
			}
			if err := fn(k); err != nil {
				return err
			}
		}
		return fmt.Errorf("read states from %s: cut short: %w", url, lines.Err())
	}
}

// parseState parses a line of StatesHandler.
func parseState(text string) (k observe.EventState, ok bool) {
	var all [8]uint64
	for i := range all {
		word, rest, more := strings.Cut(text, " ")
		v, err := strconv.ParseUint(word, 10, 64)
		if err != nil || more != (i < len(all)-1) {
			return k, false
		}
		all[i], text = v, rest
	}
	return observe.EventState{Node: model.NodeID(all[0]), Check: model.CheckID(all[1]), Results: all[2], Stream: all[3], Number: all[4], Digest: uint32(all[5]), Expired: all[6] > 0, Order: model.ResultDigest(all[7])}, true
}

// APIView returns a View that reads the events of the namespace load through the API, a thousand at a time; it is
// slower than HTTPView. Pages are sorted by severity, so a status that changes meanwhile can move a state to a page
// already read; the next reading finds it.
func APIView(api *client.Client) View {
	return func(ctx context.Context, fn func(observe.EventState) error) error {
		return simulated.EachEvent(ctx, api, v1.EventFilter{Namespace: simulated.Namespace}, func(e *v1.Event) error {
			return fn(observe.EventState{Node: e.NodeID, Check: e.CheckID, Results: e.Results, Stream: uint64(e.Stream), Number: e.Number,
				Digest: Digest(e.Status, e.Output), Expired: e.Expired, Order: e.Order})
		})
	}
}
