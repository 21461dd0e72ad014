package handler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// DefaultMutatorTimeout ends a mutator's command that says nothing else.
const DefaultMutatorTimeout = 10 * time.Second

// Mutate runs a mutator's command with an event on its standard input; the command names its assets and secrets as
// NAMESPACE/NAME. Its standard output becomes the handler's input unchanged. Mutate reads the secrets as handlers do;
// hidden are the secrets for Message.Hidden.
func (o *Out) Mutate(ctx context.Context, spec *model.MutatorSpec, event []byte) (made []byte, hidden []string, err error) {
	spec, hidden, err = spec.Reveal(o.reader(ctx))
	if err != nil {
		return nil, nil, err
	}
	h := hide.New(hidden)
	made, err = o.mutate(ctx, spec, event, h)
	return made, hidden, redactError(err, h)
}

func (o *Out) mutate(ctx context.Context, spec *model.MutatorSpec, event []byte, h *hide.Hider) ([]byte, error) {
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
	said, made := &tailBuffer{most: 512, hider: h.NewText()}, &headBuffer{most: filter.MaxMutated}
	if _, err := o.execute(ctx, withAssetPath(argvOf(spec.Command), assets), environment(os.Environ(), spec.Env, assets, ""), bytes.NewReader(event), made, said, timeout); err != nil {
		return nil, err
	}
	if made.cut {
		return nil, &FinalError{fmt.Errorf("it wrote more than %d bytes", filter.MaxMutated)}
	}
	return made.buf, nil
}

// headBuffer keeps the first bytes of an output, and knows whether there were more.
type headBuffer struct {
	buf   []byte
	most  int
	cut   bool
	hider *hide.Hider // goes over it before anything is cut; nil: nothing is hidden
}

func (h *headBuffer) Write(p []byte) (int, error) {
	h.add(p, false)
	return len(p), nil
}

func (h *headBuffer) add(p []byte, last bool) {
	if h.hider != nil {
		p = h.hider.Next(p, last)
	}
	n := min(len(p), h.most-len(h.buf))
	h.buf, h.cut = append(h.buf, p[:n]...), h.cut || n < len(p)
}

// String returns the kept beginning of the output. No write may follow.
func (h *headBuffer) String() string {
	h.add(nil, true)
	return string(h.buf)
}
