package secret

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	// hold is how long an answer, also a bad one, stands for those that ask after it.
	hold = 5 * time.Second
	// within is how long a value may take to be found.
	within = 10 * time.Second
)

// Options are what a Resolver needs of its surroundings.
type Options struct {
	// Secret is where a Secret's value is; false: there is no such Secret.
	Secret   func(namespace, name string) (*model.SecretSpec, bool)
	Getenv   func(string) (string, bool)                        // default os.LookupEnv
	ReadFile func(path string) ([]byte, error)                  // default: as the system does, a bounded part
	Client   func(ca string) (client *http.Client, err error)   // for Vault, with that CA; default: one with the system's proxies
	After    func(d time.Duration, f func()) (stop func() bool) // default time.AfterFunc
}

// Value is what a Secret stands for.
type Value struct {
	Text  string
	Lease time.Duration // how long an agent may keep it
}

// Resolver finds values. Many goroutines may use it.
type Resolver struct {
	o Options

	mu      sync.Mutex
	answers map[string]*answer // by what was asked: where, not by which name
}

// answer is one value on its way, or there.
type answer struct {
	done  chan struct{}
	value Value
	err   error
}

// New makes a Resolver.
func New(o Options) *Resolver {
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = readFile
	}
	if o.Client == nil {
		o.Client = (&clients{readFile: o.ReadFile}).get
	}
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	return &Resolver{o: o, answers: map[string]*answer{}}
}

// Resolve finds the value of a Secret. The error is for people.
func (r *Resolver) Resolve(ctx context.Context, namespace, name string) (Value, error) {
	spec, ok := r.o.Secret(namespace, name)
	if !ok {
		return Value{}, fmt.Errorf("there is no Secret %s/%s", namespace, name)
	}
	if !spec.OnServer() {
		return Value{}, errors.New("its value is on the node: the agent has not heard of that yet")
	}
	where, err := json.Marshal(spec)
	if err != nil {
		return Value{}, err
	}
	r.mu.Lock()
	a := r.answers[string(where)]
	if a == nil {
		a = &answer{done: make(chan struct{})}
		r.answers[string(where)] = a
		go r.find(a, spec, string(where)) // it outlives who asks first: others wait for it
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return Value{}, errors.New("it took too long to find")
	}
}

func (r *Resolver) find(a *answer, spec *model.SecretSpec, where string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if a.value, a.err = r.read(ctx, spec); a.err == nil {
		a.err = model.CheckSecretValue(a.value.Text)
	}
	if a.err != nil {
		a.value = Value{}
	}
	close(a.done)
	r.o.After(hold, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.answers, where)
	})
}

func (r *Resolver) read(ctx context.Context, spec *model.SecretSpec) (Value, error) {
	v := Value{Lease: cmp.Or(time.Duration(spec.Lease), model.DefaultSecretLease)}
	switch {
	case spec.Env != "":
		text, ok := r.o.Getenv(spec.Env)
		if !ok {
			return v, fmt.Errorf("the server's environment has no %s: set it where the service is declared and restart the server, or keep the secret in a file", spec.Env)
		}
		v.Text = text
	case spec.File != "":
		data, err := r.o.ReadFile(spec.File)
		if err != nil {
			return v, fmt.Errorf("on the server: %w", err)
		}
		v.Text = model.SecretOfFile(data)
	case spec.Vault != nil:
		return r.vault(ctx, spec.Vault, v.Lease)
	default:
		return v, errors.New("it does not say where the value is: it was written by another version")
	}
	return v, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 256<<10)) // a bundle of CAs fits; longer than a secret may be
}
