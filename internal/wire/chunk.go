package wire

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendChunk writes the definition without its ID and Hash: what the hash is of.
// Equal chunks are equal bytes.
func AppendChunk(dst []byte, c *model.Chunk) []byte {
	dst = appendUint(dst, 1, uint64(c.Check))
	dst = appendUint(dst, 2, uint64(c.Namespace))
	dst = appendString(dst, 3, c.CheckName)
	dst = appendCommand(dst, 4, c.Command)
	if c.Probe != nil {
		var in int
		dst, in = begin(dst, 5)
		dst = appendString(dst, 1, c.Probe.Name)
		dst = appendMap(dst, 2, c.Probe.Args)
		dst = end(dst, in)
	}
	dst = appendUint(dst, 6, uint64(c.Interval))
	dst = appendString(dst, 7, c.Cron)
	dst = appendString(dst, 8, c.TimeZone)
	dst = appendUint(dst, 9, uint64(c.Timeout))
	dst = appendUint(dst, 10, uint64(c.TTL))
	dst = appendMap(dst, 11, c.Env)
	dst = appendString(dst, 12, c.RunAs)
	dst = appendUint(dst, 13, uint64(c.MaxOutput))
	dst = appendUint(dst, 14, uint64(c.FailAfter))
	dst = appendUint(dst, 15, uint64(c.RecoverAfter))
	severities := [4]byte{byte(c.Severities[0]), byte(c.Severities[1]), byte(c.Severities[2]), byte(c.Severities[3])}
	dst = appendBytes(dst, 16, severities[:])
	for _, h := range c.Handlers {
		dst = appendItem(dst, 17, h)
	}
	dst = appendUint(dst, 18, uint64(c.FlapStart))
	dst = appendUint(dst, 19, uint64(c.FlapEnd))
	dst = appendString(dst, 20, c.Route)
	dst = appendString(dst, 21, c.Stdin)
	for i := range c.Hooks {
		dst = appendHook(dst, 22, &c.Hooks[i])
	}
	if c.Metrics != nil {
		var in int
		dst, in = begin(dst, 23)
		dst = appendString(dst, 1, c.Metrics.Format)
		dst = appendMap(dst, 2, c.Metrics.Tags)
		dst = end(dst, in)
	}
	for i := range c.Thresholds {
		dst = appendThreshold(dst, 24, &c.Thresholds[i])
	}
	for i := range c.Except {
		dst = appendSpan(dst, 25, &c.Except[i])
	}
	dst = appendBool(dst, 30, c.Proxy)
	dst = appendBool(dst, 31, c.RoundRobin)
	for _, name := range c.Pipelines {
		dst = appendItem(dst, 32, name)
	}
	for i := range c.Assets {
		dst = appendAsset(dst, 33, &c.Assets[i])
	}
	for i := range c.Secrets {
		dst = appendChunkSecret(dst, 34, &c.Secrets[i])
	}
	return appendBool(dst, 35, c.DiscardOutput)
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

// DecodeChunk reads an encoded chunk. The chunk owns its memory.
func DecodeChunk(id model.ChunkID, body []byte) (*model.Chunk, error) {
	if len(body) > maxBody {
		return nil, fmt.Errorf("decode Chunk: %w: %d bytes, at most %d", ErrMalformed, len(body), maxBody)
	}
	c := &model.Chunk{ID: id, Hash: ChunkHash(body)}
	f := fields{message: "Chunk", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			c.Check = model.CheckID(f.uint32("check"))
		case 2:
			c.Namespace = model.NamespaceID(f.uint32("namespace"))
		case 3:
			c.CheckName = f.string("check_name", maxName)
		case 4:
			c.Command = f.command()
		case 5:
			c.Probe = f.probe()
		case 6:
			c.Interval = f.duration("interval_ns")
		case 7:
			c.Cron = f.string("cron", maxText)
		case 8:
			c.TimeZone = f.string("time_zone", maxName)
		case 9:
			c.Timeout = f.duration("timeout_ns")
		case 10:
			c.TTL = f.duration("ttl_ns")
		case 11:
			f.entry("env", &c.Env, maxPairs)
		case 12:
			c.RunAs = f.string("run_as", maxName)
		case 13:
			c.MaxOutput = int(f.uint("max_output", 1<<31-1))
		case 14:
			c.FailAfter = f.uint32("fail_after")
		case 15:
			c.RecoverAfter = f.uint32("recover_after")
		case 16:
			var s [4]byte
			f.fixed("severities", s[:])
			for i, v := range s {
				if v > byte(model.Disaster) {
					f.fail("severities", "%d, at most %d", v, model.Disaster)
				}
				c.Severities[i] = model.Severity(v)
			}
		case 17:
			if f.room("handlers", len(c.Handlers), maxGroups) {
				c.Handlers = append(c.Handlers, f.string("handlers", 2*maxName))
			}
		case 18:
			c.FlapStart = f.uint32("flap_start")
		case 19:
			c.FlapEnd = f.uint32("flap_end")
		case 20:
			c.Route = f.string("route", 2*maxName)
		case 21:
			c.Stdin = f.string("stdin", maxBody)
		case 22:
			if f.room("hooks", len(c.Hooks), model.MaxHooks) {
				c.Hooks = append(c.Hooks, f.definedHook())
			}
		case 23:
			c.Metrics = f.metrics()
		case 24:
			if f.room("thresholds", len(c.Thresholds), maxArgs) {
				c.Thresholds = append(c.Thresholds, f.threshold())
			}
		case 25:
			if f.room("except", len(c.Except), maxArgs) {
				c.Except = append(c.Except, f.span())
			}
		case 30:
			c.Proxy = f.bool("proxy")
		case 31:
			c.RoundRobin = f.bool("round_robin")
		case 32:
			if f.room("pipelines", len(c.Pipelines), maxGroups) {
				c.Pipelines = append(c.Pipelines, f.string("pipelines", 2*maxName))
			}
		case 33:
			if f.room("assets", len(c.Assets), model.MaxAssets) {
				c.Assets = append(c.Assets, f.asset())
			}
		case 34:
			if f.room("secrets", len(c.Secrets), MaxAsked) {
				c.Secrets = append(c.Secrets, f.chunkSecret())
			}
		case 35:
			c.DiscardOutput = f.bool("discard_output")
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	return c, nil
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
