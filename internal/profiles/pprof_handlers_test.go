package profiles

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestSampleLocksDuringRequest expects a lock profile to contain waits for locks during its request
func TestSampleLocksDuringRequest(t *testing.T) {
	mux := http.NewServeMux()
	Handle(mux, func(w http.ResponseWriter, err *model.Error) { http.Error(w, err.Error(), err.Class.HTTP()) })
	server := httptest.NewServer(mux)
	defer server.Close()

	var lock sync.Mutex
	stop := make(chan struct{})
	var waiting sync.WaitGroup
	for range 4 {
		waiting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					lock.Lock()
					for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
					}
					lock.Unlock()
				}
			}
		})
	}
	for _, name := range []string{"mutex", "block"} {
		for tries := 1; !strings.Contains(fetchProfile(t, server.URL+"/debug/pprof/"+name+"?seconds=1"), "TestSampleLocksDuringRequest"); tries++ {
			if tries == 20 { // one wait in ten is sampled: a second may have none on a busy machine
				t.Fatalf("%s: 20 profiles without the name of this test", name)
			}
		}
	}
	close(stop)
	waiting.Wait()
}

// fetchProfile requests a profile and returns the uncompressed protobuf.
func fetchProfile(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	unpacked, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(url, answer.Status, err)
	}
	text, err := io.ReadAll(unpacked)
	testenv.NoError(t, err)
	return string(text)
}

// TestOneProfileAtATime requests a second profile during a recording, and expects a refusal.
func TestOneProfileAtATime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := sampleHandler("goroutine", func(w http.ResponseWriter, err *model.Error) { http.Error(w, err.Error(), err.Class.HTTP()) }, func(on bool) {
		if on {
			entered <- struct{}{}
			<-leave
		}
	})
	done := make(chan struct{})
	go func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		close(done)
	}()
	<-entered
	second := httptest.NewRecorder()
	h.ServeHTTP(second, httptest.NewRequest(http.MethodGet, "/", nil))
	if second.Code != http.StatusConflict || !strings.Contains(second.Body.String(), "a goroutine profile is already being recorded") {
		t.Errorf("%d %s", second.Code, second.Body)
	}
	close(leave)
	<-done
}
