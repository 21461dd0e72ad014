package wsconn

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// Who sends more than is allowed, and is still sending, reads why he is sent away.
func TestTheReasonArrives(t *testing.T) {
	for range 5 {
		server, client := pair(t)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_ = client.Write(message(2 << 20))
		}()
		if _, _, err := server.Read(1 << 20); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		if err := server.WriteClose(1009, "too long"); err != nil {
			t.Fatal(err)
		}
		go server.CloseGracefully(10 * time.Second)
		_, _, err := client.Read(100)
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != 1009 {
			t.Fatalf("client read %v", err)
		}
		<-sent
		client.Close()
	}
}

// A peer that neither reads nor closes does not hold the connection for long.
func TestPartingEnds(t *testing.T) {
	server, _ := pair(t)
	began := time.Now()
	server.CloseGracefully(50 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// A header that promises much costs nothing until it is kept.
func TestAPromiseCostsNothing(t *testing.T) {
	server, client := pair(t)
	head := frame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary, Length: 1 << 20})
	head = head[:len(head)-1<<20]
	if _, err := client.nc.Write(append(head, make([]byte, 3000)...)); err != nil {
		t.Fatal(err)
	}
	_ = server.nc.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if _, _, err := server.Read(1 << 20); err == nil {
		t.Fatal("read a message that has not come")
	}
	if n := cap(*server.big); n > maxUnprovenBytes {
		t.Errorf("%d bytes were made room for", n)
	}
	// And what is kept arrives whole.
	server, client = pair(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { _ = client.Write(append(make([]byte, Headroom), want...)) }() // masks its own copy
	op, got, err := server.Read(1 << 20)
	if err != nil || op != Binary || !bytes.Equal(got, want) {
		t.Fatalf("%v %d bytes %v", op, len(got), err)
	}
}
