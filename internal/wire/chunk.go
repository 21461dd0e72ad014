package wire

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendChunk writes the chunk without its ID and Hash: the bytes that the hash covers.
// Equal chunks are equal bytes. The chunk must be sealed.
func AppendChunk(dst []byte, c *model.Chunk) []byte {
	dst = appendUint(dst, 1, uint64(c.Kind))
	dst = appendUint(dst, 2, uint64(c.Unit))
	dst = appendUint(dst, 3, uint64(c.Namespace))
	dst = appendString(dst, 4, c.Name)
	dst, in := begin(dst, 5)
	switch body := c.Body().(type) {
	case *model.CheckChunk:
		dst = appendCheck(dst, body)
	case []byte:
		dst = append(dst, body...)
	default:
		panic(fmt.Sprintf("BUG: encode chunk of unit %d: no encoder for body %T of kind %d", c.Unit, body, c.Kind))
	}
	return end(dst, in)
}

// appendCheck writes a CheckChunk without its header.
func appendCheck(dst []byte, c *model.CheckChunk) []byte {
	dst = appendCommand(dst, 1, c.Command)
	if c.Probe != nil {
		var in int
		dst, in = begin(dst, 2)
		dst = appendString(dst, 1, c.Probe.Name)
		dst = appendMap(dst, 2, c.Probe.Args)
		dst = end(dst, in)
	}
	dst = appendUint(dst, 3, uint64(c.Interval))
	dst = appendString(dst, 4, c.Cron)
	dst = appendString(dst, 5, c.TimeZone)
	dst = appendUint(dst, 6, uint64(c.Timeout))
	dst = appendUint(dst, 7, uint64(c.TTL))
	dst = appendMap(dst, 8, c.Env)
	dst = appendString(dst, 9, c.RunAs)
	dst = appendUint(dst, 10, uint64(c.MaxOutput))
	dst = appendUint(dst, 11, uint64(c.FailAfter))
	dst = appendUint(dst, 12, uint64(c.RecoverAfter))
	severities := [4]byte{byte(c.Severities[0]), byte(c.Severities[1]), byte(c.Severities[2]), byte(c.Severities[3])}
	dst = appendBytes(dst, 13, severities[:])
	for _, h := range c.Handlers {
		dst = appendItem(dst, 14, h)
	}
	dst = appendUint(dst, 15, uint64(c.FlapStart))
	dst = appendUint(dst, 16, uint64(c.FlapEnd))
	dst = appendString(dst, 17, c.Route)
	dst = appendString(dst, 18, c.Stdin)
	for i := range c.Hooks {
		dst = appendHook(dst, 19, &c.Hooks[i])
	}
	if c.Metrics != nil {
		var in int
		dst, in = begin(dst, 20)
		dst = appendString(dst, 1, c.Metrics.Format)
		dst = appendMap(dst, 2, c.Metrics.Tags)
		dst = end(dst, in)
	}
	for i := range c.Thresholds {
		dst = appendThreshold(dst, 21, &c.Thresholds[i])
	}
	for i := range c.Except {
		dst = appendSpan(dst, 22, &c.Except[i])
	}
	dst = appendBool(dst, 23, c.Proxy)
	dst = appendBool(dst, 24, c.RoundRobin)
	for _, name := range c.Pipelines {
		dst = appendItem(dst, 25, name)
	}
	for i := range c.Assets {
		dst = appendAsset(dst, 26, &c.Assets[i])
	}
	for i := range c.Secrets {
		dst = appendChunkSecret(dst, 27, &c.Secrets[i])
	}
	return appendBool(dst, 28, c.DiscardOutput)
}

func appendCommand(dst []byte, field uint32, c *model.Command) []byte {
	if c == nil {
		return dst
	}
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, c.Shell)
	for _, arg := range c.Argv {
		dst = appendItem(dst, 2, arg)
	}
	return end(dst, in)
}

// ChunkHash is the first half of SHA-256 of an encoded chunk.
func ChunkHash(body []byte) (h [16]byte) {
	sum := sha256.Sum256(body)
	copy(h[:], sum[:])
	return h
}

// DecodeChunk reads an encoded chunk. The chunk owns its memory. The body of a kind that
// this build does not know stays encoded, as []byte.
func DecodeChunk(id model.ChunkID, data []byte) (*model.Chunk, error) {
	if len(data) > maxBody {
		return nil, fmt.Errorf("decode Chunk: %w: %d bytes, at most %d", ErrMalformed, len(data), maxBody)
	}
	head := model.Chunk{ID: id, Hash: ChunkHash(data)}
	var body []byte
	f := fields{message: "Chunk", rest: data}
	for f.next() {
		switch f.num {
		case 1:
			head.Kind = model.ChunkKind(f.uint32("kind"))
		case 2:
			head.Unit = model.UnitID(f.uint32("unit"))
		case 3:
			head.Namespace = model.NamespaceID(f.uint32("namespace"))
		case 4:
			head.Name = f.string("name", maxName)
		case 5:
			body = f.raw("body", maxBody)
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	switch head.Kind {
	case model.ChunkCheck:
		c := &model.CheckChunk{Chunk: head}
		if err := decodeCheck(c, body); err != nil {
			return nil, err
		}
		return c.Seal(), nil
	}
	return head.Seal(head.Kind, slices.Clone(body)), nil
}

// decodeCheck fills c from the body of a check.
func decodeCheck(c *model.CheckChunk, body []byte) error {
	f := fields{message: "CheckChunk", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			c.Command = f.command()
		case 2:
			c.Probe = f.probe()
		case 3:
			c.Interval = f.duration("interval_ns")
		case 4:
			c.Cron = f.string("cron", maxText)
		case 5:
			c.TimeZone = f.string("time_zone", maxName)
		case 6:
			c.Timeout = f.duration("timeout_ns")
		case 7:
			c.TTL = f.duration("ttl_ns")
		case 8:
			f.entry("env", &c.Env, maxPairs)
		case 9:
			c.RunAs = f.string("run_as", maxName)
		case 10:
			c.MaxOutput = int(f.uint("max_output", 1<<31-1))
		case 11:
			c.FailAfter = f.uint32("fail_after")
		case 12:
			c.RecoverAfter = f.uint32("recover_after")
		case 13:
			var s [4]byte
			f.fixed("severities", s[:])
			for i, v := range s {
				if v > byte(model.Disaster) {
					f.fail("severities", "%d, at most %d", v, model.Disaster)
				}
				c.Severities[i] = model.Severity(v)
			}
		case 14:
			if f.room("handlers", len(c.Handlers), maxGroups) {
				c.Handlers = append(c.Handlers, f.string("handlers", 2*maxName))
			}
		case 15:
			c.FlapStart = f.uint32("flap_start")
		case 16:
			c.FlapEnd = f.uint32("flap_end")
		case 17:
			c.Route = f.string("route", 2*maxName)
		case 18:
			c.Stdin = f.string("stdin", maxBody)
		case 19:
			if f.room("hooks", len(c.Hooks), model.MaxHooks) {
				c.Hooks = append(c.Hooks, f.definedHook())
			}
		case 20:
			c.Metrics = f.metrics()
		case 21:
			if f.room("thresholds", len(c.Thresholds), maxArgs) {
				c.Thresholds = append(c.Thresholds, f.threshold())
			}
		case 22:
			if f.room("except", len(c.Except), maxArgs) {
				c.Except = append(c.Except, f.span())
			}
		case 23:
			c.Proxy = f.bool("proxy")
		case 24:
			c.RoundRobin = f.bool("round_robin")
		case 25:
			if f.room("pipelines", len(c.Pipelines), maxGroups) {
				c.Pipelines = append(c.Pipelines, f.string("pipelines", 2*maxName))
			}
		case 26:
			if f.room("assets", len(c.Assets), model.MaxAssets) {
				c.Assets = append(c.Assets, f.asset())
			}
		case 27:
			if f.room("secrets", len(c.Secrets), MaxAsked) {
				c.Secrets = append(c.Secrets, f.chunkSecret())
			}
		case 28:
			c.DiscardOutput = f.bool("discard_output")
		}
	}
	return f.err
}

func (f *fields) duration(name string) time.Duration {
	return time.Duration(f.uint(name, 1<<63-1))
}

func (f *fields) command() *model.Command {
	c := &model.Command{}
	in := f.nested("command", "Command")
	for in.next() {
		switch in.num {
		case 1:
			c.Shell = in.string("shell", maxBody)
		case 2:
			if in.room("argv", len(c.Argv), maxArgs) {
				c.Argv = append(c.Argv, in.string("argv", maxBody))
			}
		}
	}
	f.done(&in)
	return c
}

func (f *fields) probe() *model.Probe {
	p := &model.Probe{}
	in := f.nested("probe", "Probe")
	for in.next() {
		switch in.num {
		case 1:
			p.Name = in.string("name", maxName)
		case 2:
			in.entry("args", &p.Args, maxPairs)
		}
	}
	f.done(&in)
	return p
}
