package load

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Kept is what the view says of one event state.
type Kept struct {
	Node    model.NodeID
	Check   model.CheckID
	Results uint64             // applied ever
	Stream  uint64             // of the last one …
	Number  uint64             // … and its number there
	Digest  uint32             // of the last one's status and output; zero: not told
	Expired bool               // the deadline judged since, and the last one may not have
	Order   model.ResultDigest // of all results; zero: not told, or the view does not know
}

// View reads all event states, in any order.
type View interface {
	Each(ctx context.Context, fn func(Kept) error) error
}

// StatesHandler answers with every event state's place and counters, a line each:
// what the ledger is compared with. It belongs on the admin listener.
func StatesHandler(view event.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriterSize(w, 64<<10)
		defer out.Flush()
		err := InProcess(view).Each(r.Context(), func(k Kept) error {
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

type httpView struct{ url string }

// HTTPView reads what StatesHandler wrote.
func HTTPView(url string) View { return httpView{url} }

func (v httpView) Each(ctx context.Context, fn func(Kept) error) error {
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
		k, ok := parseKept(lines.Text())
		if !ok {
			return fmt.Errorf("read states from %s: line %q is not eight numbers", v.url, lines.Text())
		}
		if err := fn(k); err != nil {
			return err
		}
	}
	return fmt.Errorf("read states from %s: cut short: %w", v.url, lines.Err())
}

// parseKept reads a line of StatesHandler: there are millions.
func parseKept(text string) (k Kept, ok bool) {
	var all [8]uint64
	for i := range all {
		word, rest, more := strings.Cut(text, " ")
		v, err := strconv.ParseUint(word, 10, 64)
		if err != nil || more != (i < len(all)-1) {
			return k, false
		}
		all[i], text = v, rest
	}
	return Kept{model.NodeID(all[0]), model.CheckID(all[1]), all[2], all[3], all[4], uint32(all[5]), all[6] > 0, model.ResultDigest(all[7])}, true
}

type apiView struct{ api *client.Client }

// APIView reads the events of the namespace load through the API, a thousand at a time: slower
// than HTTPView. Pages are worst first, so a deadline that judges meanwhile can move a state
// past the reader; a second reading has it then.
func APIView(api *client.Client) View { return apiView{api} }

func (v apiView) Each(ctx context.Context, fn func(Kept) error) error {
	f := v1.EventFilter{Namespace: simulated.Namespace, Limit: 1000}
	for {
		page, err := v.api.Events.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Items {
			e := &page.Items[i]
			if err := fn(Kept{e.NodeID, e.CheckID, e.Results, uint64(e.Stream), e.Number, Digest(e.Status, e.Output), e.Expired, e.Order}); err != nil {
				return err
			}
		}
		if f.After = page.Next; f.After == "" {
			return nil
		}
	}
}

type inProcess struct{ view event.Reader }

// InProcess reads a view of this process.
func InProcess(view event.Reader) View { return inProcess{view} }

func (v inProcess) Each(ctx context.Context, fn func(Kept) error) error {
	q := event.Query{Limit: 1000, ByNode: true}
	for {
		page, err := v.view.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.States {
			s := &page.States[i]
			if err := fn(Kept{s.Node, s.Check, s.Results, s.Stream, s.Number, Digest(s.Status, s.Output), s.Expired, s.Order}); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
