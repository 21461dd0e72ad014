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

// View reads all event states, in any order.
type View interface {
	Each(ctx context.Context, fn func(observe.EventState) error) error
}

// StatesHandler answers with one line of ids and counters for each event state, to compare with the ledger. It belongs
// on the admin listener.
func StatesHandler(view event.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriterSize(w, 64<<10)
		defer out.Flush()
		err := InProcess(view).Each(r.Context(), func(k observe.EventState) error {
			expired := 0
			if k.Expired {
				expired = 1
			}
			_, err := fmt.Fprintf(out, "%d %d %d %d %d %d %d %d\n", k.Node, k.Check, k.Results, k.Stream, k.Number, k.Digest, expired, uint32(k.Order))
			return err
		})
		if err == nil {
			fmt.Fprintln(out, "end")
		}
	})
}

// httpView reads states from a URL.
type httpView struct{ url string }

// HTTPView returns a View of the answers of StatesHandler.
func HTTPView(url string) View { return httpView{url} }

// Each requests the states and calls fn for each.
func (v httpView) Each(ctx context.Context, fn func(observe.EventState) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("read states from %s: %s", v.url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() == "end" {
			return nil
		}
		k, ok := parseState(lines.Text())
		if !ok {
			return fmt.Errorf("read states from %s: line %q is not eight numbers", v.url, lines.Text())
		}
		if err := fn(k); err != nil {
			return err
		}
	}
	return fmt.Errorf("read states from %s: cut short: %w", v.url, lines.Err())
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

// apiView reads events through the API.
type apiView struct{ api *client.Client }

// APIView returns a View that reads the events of the namespace load through the API, a thousand at a time; it is
// slower than HTTPView. Pages are sorted by severity, so a status that changes meanwhile can move a state to a page
// already read; the next reading finds it.
func APIView(api *client.Client) View { return apiView{api} }

// Each lists the events and calls fn for each.
func (v apiView) Each(ctx context.Context, fn func(observe.EventState) error) error {
	f := v1.EventFilter{Namespace: simulated.Namespace, Limit: 1000}
	for {
		page, err := v.api.Events.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Items {
			e := &page.Items[i]
			if err := fn(observe.EventState{Node: e.NodeID, Check: e.CheckID, Results: e.Results, Stream: uint64(e.Stream), Number: e.Number, Digest: Digest(e.Status, e.Output), Expired: e.Expired, Order: e.Order}); err != nil {
				return err
			}
		}
		if f.After = page.Next; f.After == "" {
			return nil
		}
	}
}

// inProcess reads a view of this process.
type inProcess struct{ view event.Reader }

// InProcess returns a View of an event view in this process.
func InProcess(view event.Reader) View { return inProcess{view} }

// Each lists the event states and calls fn for each.
func (v inProcess) Each(ctx context.Context, fn func(observe.EventState) error) error {
	q := event.Query{Limit: 1000, ByNode: true}
	for {
		page, err := v.view.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.States {
			s := &page.States[i]
			if err := fn(observe.EventState{Node: s.Node, Check: s.Check, Results: s.Results, Stream: s.Stream, Number: s.Number, Digest: Digest(s.Status, s.Output), Expired: s.Expired, Order: s.Order}); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
