package rudder

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// An inventory is two files, in two requests: the inventory and its signature. The first waits in memory for the second, whichever it is.
// A restart forgets it: the second file of the pair waits then in its place until the agent sends both again.

// uploadTime is the longest time that a file waits for the other file of its pair.
const uploadTime = 10 * time.Minute

// maxPairs bounds the pairs that wait, because each takes memory beside its files.
const maxPairs = 50_000

// maxUploadName bounds the name of a file in bytes.
const maxUploadName = 255

// uploads has uploaded inventory files whose second file (inventory or signature) has not arrived yet. The
// files of a pair are inventory and signature.
type uploads struct {
	mu    sync.Mutex
	most  int // bytes of all files; beyond these or maxPairs the sender with the most loses its oldest pair
	bytes int
	pairs map[uploadKey]*upload
}

// uploadKey identifies the two files of one inventory, by sender and name. The name has no extensions, the sender is
// an address.
type uploadKey struct{ from, name string }

// upload is an incomplete upload, which has either the inventory file or the signature file so far.
type upload struct {
	inventory, signature []byte
	until                time.Time
}

// size returns the number of bytes of the inventory's files.
func (u *upload) size() int { return len(u.inventory) + len(u.signature) }

// keyOfUpload returns the key of an uploaded file's inventory, and whether the file is the signature. A pair is
// an inventory and its signature. ok is false for a name of another kind.
func keyOfUpload(from, file string) (key uploadKey, isSignature, ok bool) {
	name := path.Base(file)
	if len(name) > maxUploadName {
		return key, false, false
	}
	name = strings.TrimSuffix(name, ".gz")
	name, isSignature = strings.CutSuffix(name, ".sign")
	name = strings.TrimSuffix(name, ".gz")
	for _, extension := range []string{".ocs", ".xml", ".json"} {
		if base, found := strings.CutSuffix(name, extension); found {
			return uploadKey{from, base}, isSignature, base != ""
		}
	}
	return uploadKey{from, name}, true, isSignature && name != ""
}

// addFile stores one of the two files of an inventory, and returns both files after the second upload. It
// returns both files if the pair is complete; it keeps them until remove.
func (x *uploads) addFile(key uploadKey, isSignature bool, data []byte, now time.Time) (inventory, signature []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pairs == nil {
		x.pairs = map[uploadKey]*upload{}
	}
	for other, u := range x.pairs {
		if u.until.Before(now) {
			x.deleteLocked(other)
		}
	}
	u := x.pairs[key]
	if u == nil {
		u = &upload{}
		x.pairs[key] = u
	}
	x.bytes -= u.size()
	if u.until = now.Add(uploadTime); isSignature {
		u.signature = data
	} else {
		u.inventory = data
	}
	for x.bytes += u.size(); x.bytes > x.most || len(x.pairs) > maxPairs; {
		weight := (*upload).size
		if x.bytes <= x.most {
			weight = func(*upload) int { return 1 }
		}
		other, isOwn := x.largestLocked(key.from, weight)
		if isOwn {
			x.deleteLocked(key)
			return nil, nil, model.Errorf(model.Unavailable, "too many inventories wait for their signatures").WithHint("send it again")
		}
		x.deleteLocked(other)
	}
	if u.inventory == nil || u.signature == nil {
		return nil, nil, nil
	}
	return u.inventory, u.signature, nil
}

// largestLocked returns the oldest waiting upload of the sender whose waiting files are the most or the
// largest. It returns the sender's oldest inventory, and whether the sender is the given sender, which wins a
// tie. So no sender fills the room of the others. The caller holds mu.
func (x *uploads) largestLocked(own string, weight func(*upload) int) (oldest uploadKey, isOwn bool) {
	weights := map[string]int{}
	for key, u := range x.pairs {
		weights[key.from] += weight(u)
	}
	largest := own
	for from, n := range weights {
		if n > weights[largest] {
			largest = from
		}
	}
	for key, u := range x.pairs {
		if key.from == largest && (oldest.from == "" || u.until.Before(x.pairs[oldest].until)) {
			oldest = key
		}
	}
	return oldest, largest == own
}

// remove locks the list of waiting uploads, and forgets the files of one inventory.
func (x *uploads) remove(key uploadKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deleteLocked(key)
}

// deleteLocked forgets the files of one waiting inventory, while the caller holds the lock. The caller holds
// mu.
func (x *uploads) deleteLocked(key uploadKey) {
	if u := x.pairs[key]; u != nil {
		x.bytes -= u.size()
		delete(x.pairs, key)
	}
}
