package wire

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// SignalKind is the kind of an agent's signal, such as result or keepalive. It is the field number of the body in the
// message Signal, 10 to 31. A kind that this program has no name for decodes like any other, so that its receiver
// refuses it by its number.
type SignalKind uint8

// Kinds of agents' signals. The type of Body is named beside each; docs/protocol/muster.proto has all.
const (
	SignalResult     SignalKind = 10 // Result
	SignalKeepalive  SignalKind = 11 // empty
	SignalValueBlock SignalKind = 12 // ValueBlock
	SignalReport     SignalKind = 13 // Report
	SignalInventory  SignalKind = 14 // Inventory

	firstSignalKind SignalKind = 10
	lastSignalKind  SignalKind = 31
)

// String returns the name of the signal kind, such as "value block".
func (k SignalKind) String() string {
	switch k {
	case SignalResult:
		return "result"
	case SignalKeepalive:
		return "keepalive"
	case SignalValueBlock:
		return "value block"
	case SignalReport:
		return "report"
	case SignalInventory:
		return "inventory"
	}
	return fmt.Sprintf("signal kind %d", uint8(k))
}

// Signal is a numbered message of an agent, such as a result. The agent keeps it until the server acknowledges it.
// Sessions decode only the envelope; reducers decode Body by Kind. Decoded, Body aliases the input.
type Signal struct {
	Kind       SignalKind
	Definition model.DefinitionID // definition that the signal comes from; zero: the agent itself
	Node       model.NodeID       // proxy node that the signal is about; zero: the node that sends it
	AtMs       uint64             // end of the run, on the sender's clock (see Batch.NowMs)
	Body       []byte             // encoded message of Kind
}

// Ready field tags for the fast encoding of signals.
const (
	tagAt         = 1<<3 | typeVarint
	tagDefinition = 2<<3 | typeVarint
	tagNode       = 3<<3 | typeVarint
	tagFirstKind  = byte(firstSignalKind)<<3 | typeBytes
)

// AppendSignal appends a signal, such as a result, as a field of a Batch. A signal is a numbered message of an agent.
func AppendSignal(dst []byte, s *Signal) []byte {
	size := uintFieldBytes(s.AtMs) + uintFieldBytes(uint64(s.Definition)) + uintFieldBytes(uint64(s.Node)) +
		varintBytes(uint64(s.Kind)<<3) + varintBytes(uint64(len(s.Body))) + len(s.Body)
	dst = binary.AppendUvarint(append(dst, tagSignal), uint64(size))
	return AppendSignalMessage(dst, s)
}

// AppendSignalMessage appends an encoded signal by itself, not as a field of a batch. A signal is a numbered message
// of an agent.
func AppendSignalMessage(dst []byte, s *Signal) []byte {
	if s.AtMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagAt), s.AtMs)
	}
	if s.Definition != 0 {
		dst = binary.AppendUvarint(append(dst, tagDefinition), uint64(s.Definition))
	}
	if s.Node != 0 {
		dst = binary.AppendUvarint(append(dst, tagNode), uint64(s.Node))
	}
	return appendBytesItem(dst, uint32(s.Kind), s.Body)
}

// Decode decodes a signal (a numbered message of an agent), such as a result. Its Body is a slice of data.
func (s *Signal) Decode(data []byte) error {
	*s = Signal{}
	if s.decodeOrdered(data) {
		return nil
	}
	return s.decodeFields(data)
}

// decodeFields decodes a signal with fields in any order.
func (s *Signal) decodeFields(data []byte) error {
	*s = Signal{}
	f := fields{message: "Signal", rest: data}
	for f.next() {
		switch {
		case f.num == 1:
			s.AtMs = f.uint64("at_ms")
		case f.num == 2:
			s.Definition = model.DefinitionID(f.uint32("definition"))
		case f.num == 3:
			s.Node = model.NodeID(f.uint32("node"))
		case f.num >= uint64(firstSignalKind) && f.num <= uint64(lastSignalKind):
			if s.Kind != 0 {
				f.fail("kind", "more than one")
			}
			s.Kind, s.Body = SignalKind(f.num), f.raw("kind", MaxFrame)
		}
	}
	if f.err == nil && s.Kind == 0 {
		f.fail("kind", "none")
	}
	return f.err
}

// decodeOrdered decodes a signal whose fields have the usual order, faster than decodeFields. AppendSignal writes this
// order. False sends everything else, also malformed bytes, to the general way, which names the fault.
func (s *Signal) decodeOrdered(data []byte) bool {
	i := 0
	if i < len(data) && data[i] == tagAt {
		if s.AtMs, i = uvarintLong(data, 1); i < 0 {
			return false
		}
	}
	if i < len(data) && data[i] == tagDefinition {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Definition = model.DefinitionID(v)
	}
	if i < len(data) && data[i] == tagNode {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Node = model.NodeID(v)
	}
	if i+2 > len(data) || data[i] < tagFirstKind || data[i] >= 0x80 || data[i]&7 != typeBytes {
		return false
	}
	s.Kind = SignalKind(data[i] >> 3)
	i++
	size := uint64(data[i])
	i++
	if size >= 0x80 {
		if i < len(data) && data[i] < 0x80 { // most results
			size = size&0x7f | uint64(data[i])<<7
			i++
		} else if size, i = uvarintLong(data, i-1); i < 0 {
			return false
		}
	}
	if size != uint64(len(data)-i) {
		return false
	}
	if size > 0 {
		s.Body = data[i:len(data):len(data)]
	}
	return true
}

// Result is the body of a result signal, about one run of a check.
type Result struct {
	Status     model.Status
	DurationMs uint32
	Output     []byte
	Cut        uint64 // bytes of output that were cut away
	Samples    []byte // encoded SampleBlock: numbers of series that the run scraped, without labels of the server
	Extra      []byte // encoded Extra, as it came: see DecodeExtra
}

// Fields of a Result, by their protobuf numbers. The fields of an Extra come last.
const (
	fieldHook     = 5
	fieldValue    = 6
	fieldPipeline = 7
	fieldSensu    = 8
	fieldSamples  = 9 // before them

	tagStatus   = 1<<3 | typeVarint
	tagDuration = 2<<3 | typeVarint
	tagOutput   = 3<<3 | typeBytes
	tagCut      = 4<<3 | typeVarint
	tagSamples  = fieldSamples<<3 | typeBytes
	tagHook     = fieldHook<<3 | typeBytes
	tagValue    = fieldValue<<3 | typeBytes
	tagPipeline = fieldPipeline<<3 | typeBytes
	tagSensu    = fieldSensu<<3 | typeBytes
)

// ResultSignal returns a signal with an encoded result as its body. A signal is a numbered message of an agent.
func ResultSignal(s Signal, r Result) Signal {
	s.Kind, s.Body = SignalResult, AppendResult(nil, &r)
	return s
}

// Result decodes the check result that the signal contains.
func (s *Signal) Result() (r Result, err error) {
	err = r.Decode(s.Body)
	return r, err
}

// AppendResult appends an encoded check result, for the body of a signal.
func AppendResult(dst []byte, r *Result) []byte {
	if r.Status != 0 {
		dst = append(dst, tagStatus, byte(r.Status))
	}
	if r.DurationMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagDuration), uint64(r.DurationMs))
	}
	if len(r.Output) > 0 {
		dst = binary.AppendUvarint(append(dst, tagOutput), uint64(len(r.Output)))
		dst = append(dst, r.Output...)
	}
	if r.Cut != 0 {
		dst = binary.AppendUvarint(append(dst, tagCut), r.Cut)
	}
	if len(r.Samples) > 0 {
		dst = append(binary.AppendUvarint(append(dst, tagSamples), uint64(len(r.Samples))), r.Samples...)
	}
	return append(dst, r.Extra...)
}

// Decode decodes a check result from a signal (numbered message). Output, Samples and Extra are parts of the body.
func (r *Result) Decode(body []byte) error {
	*r = Result{}
	if r.decodeOrdered(body) {
		return nil
	}
	return r.decodeFields(body)
}

// decodeFields decodes a result with fields in any order.
func (r *Result) decodeFields(body []byte) error {
	*r = Result{}
	f := fields{message: "Result", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			r.Status = model.Status(f.uint("status", uint64(model.Unknown)))
		case 2:
			r.DurationMs = f.uint32("duration_ms")
		case 3:
			r.Output = f.raw("output", MaxFrame)
		case 4:
			r.Cut = f.uint64("cut")
		case fieldSamples:
			r.Samples = f.raw("samples", MaxFrame)
		case fieldHook, fieldValue, fieldPipeline, fieldSensu:
			if f.expect("hooks, values, pipelines or sensu", typeBytes) {
				r.Extra = appendBytesItem(r.Extra, uint32(f.num), f.bytes)
			}
		}
	}
	return f.err
}

// decodeOrdered decodes a result whose fields have the usual order, faster than decodeFields. AppendResult writes this
// order. It returns false for all other bytes, which decodeFields decodes or refuses with the fault.
func (r *Result) decodeOrdered(data []byte) bool {
	i := 0
	if i+1 < len(data) && data[i] == tagStatus {
		if data[i+1] > byte(model.Unknown) {
			return false
		}
		r.Status = model.Status(data[i+1])
		i += 2
	}
	if i < len(data) && data[i] == tagDuration {
		v, n := uvarint(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		r.DurationMs = uint32(v)
	}
	if i+1 < len(data) && data[i] == tagOutput {
		i++
		size := uint64(data[i])
		i++
		if size >= 0x80 {
			if size, i = uvarintLong(data, i-1); i < 0 {
				return false
			}
		}
		if size > uint64(len(data)-i) {
			return false
		}
		if size > 0 {
			r.Output = data[i : i+int(size) : i+int(size)]
			i += int(size)
		}
	}
	if i < len(data) && data[i] == tagCut {
		if r.Cut, i = uvarintLong(data, i+1); i < 0 {
			return false
		}
	}
	if i < len(data) && data[i] == tagSamples {
		size, n := uvarint(data, i+1)
		if n <= 0 || size == 0 || size > uint64(len(data)-n) {
			return false
		}
		i = n + int(size)
		r.Samples = data[n:i:i]
	}
	if i == len(data) {
		return true
	}
	if extraFieldsLen(data[i:]) != len(data)-i {
		return false
	}
	r.Extra = data[i:len(data):len(data)]
	return true
}

// Extra holds the additional fields of a result, such as metric values and hook results.
type Extra struct {
	Hooks     []model.HookResult
	Values    []model.Value
	Pipelines []string  // that get values of no check
	Sensu     *SensuRun // nil: no Sensu agent ran the check, or no pipeline reads its events
}

// SensuRun keeps the details of a Sensu agent's event that a Muster result lacks. Handlers that read events in Sensu's
// format need it.
type SensuRun struct {
	ExitCode   uint32
	Sequence   uint64 // of the agent's events on its connection
	Issued     uint64 // s since 1970; of the request
	OutputFrom uint32 // bytes of the result's output before the agent's text
	OutputTo   uint32 // end of the agent's text in the result's output
	Tail       string // white space at the end of the agent's text, which the output lacks
}

// AgentOutput returns the Sensu agent's own part of an output, without lines added by the server.
func (r *SensuRun) AgentOutput(output string) string {
	to := min(int(r.OutputTo), len(output))
	return output[min(int(r.OutputFrom), to):to] + r.Tail
}

// codeExtra encodes or decodes the extra fields of a result.
func codeExtra(c *coder, x *Extra) {
	messages(c, fieldHook, "hooks", "HookResult", &x.Hooks, model.MaxHooks, codeHookResult)
	messages(c, fieldValue, "values", "Value", &x.Values, model.MaxValues, codeValue)
	c.textList(fieldPipeline, "pipelines", &x.Pipelines, model.MaxHooks, maxName)
	optionalMessage(c, fieldSensu, "sensu", "SensuRun", &x.Sensu, codeSensuRun)
}

// AppendExtra appends the encoded extra fields of a result.
func AppendExtra(dst []byte, x *Extra) []byte { return encodeMessage(dst, x, codeExtra) }

// AppendValue appends one metric value to the encoded extra fields of a result.
func AppendValue(dst []byte, v *model.Value) []byte {
	return appendMessage(dst, fieldValue, v, codeValue)
}

// DecodeExtra decodes the extra fields of a result. The returned Extra owns its memory.
func DecodeExtra(data []byte) (x Extra, err error) {
	err = decodeMessage("Result", data, &x, codeExtra)
	return x, err
}

// SensuRunOf returns the data of a Sensu agent's event from an encoded result. It returns nil if the result is not
// from a Sensu agent.
func SensuRunOf(extra []byte) *SensuRun {
	f := fields{message: "Result", rest: extra}
	for f.next() {
		if f.num == fieldSensu {
			run := nested(&f, "sensu", "SensuRun", codeSensuRun)
			return &run
		}
	}
	return nil
}

// extraFieldsLen returns the length of the Extra fields at the start of data, in bytes. It returns a negative number
// if they are malformed.
func extraFieldsLen(data []byte) int {
	i := 0
	for i < len(data) && (data[i] == tagHook || data[i] == tagValue || data[i] == tagPipeline || data[i] == tagSensu) {
		size, n := uvarint(data, i+1)
		if n < 0 || size > uint64(len(data)-n) {
			return -1
		}
		i = n + int(size)
	}
	return i
}

// ValueBlock is a table of a Template's item values, with a row per time and column per item. The values are in rows
// by time and columns by item.
type ValueBlock struct {
	Rows    uint32 // values in Columns, which has at least a byte for each
	Columns []byte
	Macros  string   // macros whose values Properties set on the node, as JSON; empty: none
	UnixNs  uint64   // time from which Columns count, ns since 1970, of a sender with a clock of its own; zero: the signal's AtMs
	Keys    []string // of discovered items: in Columns they follow the items of the Template
	Log     LogPosition
}

// LogPosition is the position in a log up to which an agent of Zabbix has sent its lines. The server returns it to the agent's
// next run. The zero LogPosition is none.
type LogPosition struct {
	Item  uint64 // number of the item's key, never zero
	Size  uint64 // bytes of the log before the position, or the number of the last record of an event log
	MTime uint64 // modification time of the log file, s since 1970
}

// MaxKeys is the largest number of discovered items in a value block.
const MaxKeys = 10000

// AppendValueBlock appends an encoded value block, for the body of a signal.
func AppendValueBlock(dst []byte, b *ValueBlock) []byte {
	dst = appendUint(dst, 1, uint64(b.Rows))
	dst = appendBytes(dst, 2, b.Columns)
	dst = appendUint(appendString(dst, 3, b.Macros), 4, b.UnixNs)
	dst = appendStrings(dst, 5, b.Keys)
	return appendUint(appendUint(appendUint(dst, 6, b.Log.Item), 7, b.Log.Size), 8, b.Log.MTime)
}

// Decode decodes the item values of a Template from a signal (numbered message). Columns is a part of the body. Rate
// limits charge Rows, so that a block may not claim more of them than it has bytes. A block without values has a position in a
// log.
func (b *ValueBlock) Decode(body []byte) error {
	*b = ValueBlock{Keys: b.Keys[:0]}
	f := fields{message: "ValueBlock", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			b.Rows = f.uint32("rows")
		case 2:
			b.Columns = f.raw("columns", MaxFrame)
		case 3:
			b.Macros = f.string("macros", MaxMacros)
		case 4:
			b.UnixNs = f.uint64("unix_ns")
		case 5:
			b.Keys = f.stringList("keys", b.Keys, MaxKeys, 2048)
		case 6:
			b.Log.Item = f.uint64("log_item")
		case 7:
			b.Log.Size = f.uint64("log_size")
		case 8:
			b.Log.MTime = f.uint64("log_mtime")
		}
	}
	if f.err == nil && b.Rows == 0 && len(b.Columns) == 0 && b.Log.Item != 0 {
		return nil
	}
	if f.err == nil && (b.Rows == 0 || int64(b.Rows) > int64(len(b.Columns))) {
		f.fail("rows", "%d in %d bytes of columns", b.Rows, len(b.Columns))
	}
	return f.err
}

// Report is an agent's report about one run of a directive on its node. Start is Signal.AtMs less the duration.
type Report struct {
	Components uint32
	Codes      []byte // see package policy
	Enforced   bool   // the run was allowed to repair; else audit
	DurationMs uint32
	Exceptions []ReportException // ascending by position; behind the last component: of reported components that nobody expects
	HeldMs     uint64            // since when the agent has had the definition
	Ended      string            // why the run ended before its last component; empty: it did not
	Signed     []byte            // encoded SignedRun; empty: the agent has no key
}

// SignedRun is the signed proof in a report that a directive's run took place. It links the run to the node's earlier
// runs in a chain of hashes, and has the node's signature. See policy.ChainEnd.
type SignedRun struct {
	Number      uint64 // of the run in the chain, from 1
	UnixMs      uint64 // end of the run, by the clock of the agent, corrected to the server's
	Equal       bool   // the run equals the one before it of its directive, so that the chain gets no link
	Previous    [32]byte
	Assignment  [32]byte // AssignmentHash of the assignment in force
	Signature   [64]byte // of the chain's end after the run
	Certificate []byte   // of the node, DER; with the first run of an agent's life, of a day and of a key
}

// ReportException is a message for people about one component (checked part of a directive) in a report.
type ReportException struct {
	Position uint32
	Message  string
}

// UnexpectedComponents returns the messages about components (checked parts) that a run reports but its
// directive lacks. Their positions are n or above. Rudder's agents reported these components.
func UnexpectedComponents(exceptions []ReportException, n int) []ReportException {
	i, _ := slices.BinarySearchFunc(exceptions, uint32(n), func(e ReportException, at uint32) int { return cmp.Compare(e.Position, at) })
	return exceptions[i:]
}

// Bounds of one report of a directive.
const (
	MaxComponents       = 10000
	MaxReportExceptions = 1000
	MaxExceptionText    = 1024
)

// AppendSignedRun appends an encoded SignedRun, for the field Report.Signed.
func AppendSignedRun(dst []byte, r *SignedRun) []byte { return encodeMessage(dst, r, codeSignedRun) }

// Decode decodes the proof of a directive's run from the field Report.Signed. The decoded Certificate is a part of
// data.
func (r *SignedRun) Decode(data []byte) error {
	*r = SignedRun{}
	return decodeMessage("SignedRun", data, r, codeSignedRun)
}

// AppendReport appends an encoded report about a directive's run, for the body of a signal.
func AppendReport(dst []byte, r *Report) []byte { return encodeMessage(dst, r, codeReport) }

// Decode decodes a report about a directive's run from a signal (numbered message). Codes are a part of it;
// policy.Codes.Check tests them.
func (r *Report) Decode(body []byte) error {
	*r = Report{}
	return decodeMessage("Report", body, r, codeReport)
}

// ReportCertificate returns the certificate inside an encoded report, or nil for a report without certificate. It
// decodes no other part.
func ReportCertificate(body []byte) (der []byte, err error) {
	const fieldSigned = 8
	f := fields{message: "Report", rest: body}
	for f.next() {
		if f.num == fieldSigned {
			var r SignedRun
			if err := r.Decode(f.raw("signed", 8192)); err != nil {
				return nil, err
			}
			der = r.Certificate
		}
	}
	return der, f.err
}

// Inventory is the body of an inventory signal, with a change or the whole inventory of a node.
type Inventory struct {
	Complete bool   // nothing of an older inventory remains
	Base     uint64 // sum of the inventory that changes; without Complete
	Sum      uint64 // sum of the inventory after the change: see package inventory
	Added    []model.InventoryEntry
	Removed  []model.InventoryEntry // without Complete
}

// AppendInventory appends an encoded inventory, for the body of a signal.
func AppendInventory(dst []byte, x *Inventory) []byte { return encodeMessage(dst, x, codeInventory) }

// Decode decodes a node's inventory, or a change of the inventory, from a signal (numbered message). The result owns
// its memory.
func (x *Inventory) Decode(body []byte) error {
	*x = Inventory{}
	return decodeMessage("Inventory", body, x, codeInventory)
}
