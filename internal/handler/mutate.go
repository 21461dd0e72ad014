package handler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// DefaultMutatorTimeout ends a mutator's command that says nothing else.
const DefaultMutatorTimeout = 10 * time.Second

// Mutate runs a mutator's command, which names its assets and secrets as NAMESPACE/NAME, with an event on its standard input. What it writes on its
// standard output is what the handler gets, as it is. Its secrets are read here, as those of handlers; hidden is what nobody may see of
// what is said of the message afterwards (Message.Hidden).
func (o *Out) Mutate(ctx context.Context, spec *model.MutatorSpec, event []byte) (made []byte, hidden []string, err error) {
	spec, hidden, err = spec.Reveal(o.reader(ctx))
	if err != nil {
		return nil, nil, err
	}
	made, err = o.mutate(ctx, spec, event)
	return made, hidden, hideIn(err, hider(hidden))
}

func (o *Out) mutate(ctx context.Context, spec *model.MutatorSpec, event []byte) ([]byte, error) {
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = DefaultMutatorTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	assets, done, err := o.assets(ctx, spec.Assets)
	if err != nil {
		return nil, err
	}
	defer done()
	said, made := &tail{most: 512}, &head{most: filter.MaxMutated}
	if _, err := o.execute(ctx, among(argvOf(spec.Command), assets), environment(os.Environ(), spec.Env, assets, ""), bytes.NewReader(event), made, said, timeout); err != nil {
		return nil, err
	}
	if made.cut {
		return nil, &FinalError{fmt.Errorf("it wrote more than %d bytes", filter.MaxMutated)}
	}
	return made.buf, nil
}

// head keeps the first bytes of an output, and knows whether there were more.
type head struct {
	buf  []byte
	most int
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.most-len(h.buf))
	h.buf, h.cut = append(h.buf, p[:n]...), h.cut || n < len(p)
	return len(p), nil
}
