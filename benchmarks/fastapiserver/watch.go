package main

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const bookmarkInterval = time.Minute // as kube-apiserver

// watch is an open watch; lines to send are pending until its own goroutine writes them.
type watch struct {
	key       watchKey
	isWhole   bool // it gets whole objects
	connected net.Conn
	wake      chan struct{}

	mu      sync.Mutex
	pending []byte
	commits []time.Time // of pending events that were committed while the watch was open
}

func newWatch(key watchKey, isWhole bool, connected net.Conn) *watch {
	return &watch{key: key, isWhole: isWhole, connected: connected, wake: make(chan struct{}, 1)}
}

// add makes an event pending; `committed` is zero for an event that was committed before the watch opened.
func (w *watch) add(committed time.Time, appendTo func([]byte) []byte) {
	w.mu.Lock()
	w.pending = appendTo(w.pending)
	if !committed.IsZero() {
		w.commits = append(w.commits, committed)
	}
	w.mu.Unlock()
	w.notify()
}

func (w *watch) addBookmark(revision int64) {
	w.mu.Lock()
	w.pending = appendBookmark(w.pending, revision)
	w.mu.Unlock()
	w.notify()
}

func (w *watch) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// cut resets the connection, so that the client gets an error at once.
func (w *watch) cut() {
	if tcp, ok := w.connected.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = w.connected.Close()
}

// write sends what becomes pending until the client is gone or the watch has lasted for its timeout.
func (w *watch) write(response http.ResponseWriter, gone <-chan struct{}, timeout time.Duration, s *storage) {
	end, bookmarks := time.NewTimer(timeout), time.NewTicker(bookmarkInterval)
	defer end.Stop()
	defer bookmarks.Stop()
	controller := http.NewResponseController(response)
	var lines []byte
	var commits []time.Time
	for {
		if controller.Flush() != nil {
			return
		}
		s.delays.observe(commits)
		select {
		case <-gone:
			return
		case <-end.C:
			return
		case <-bookmarks.C:
			s.bookmark(w)
			<-w.wake
		case <-w.wake:
		}
		w.mu.Lock()
		lines, w.pending = w.pending, lines[:0]
		commits, w.commits = w.commits, commits[:0]
		w.mu.Unlock()
		if _, err := response.Write(lines); err != nil {
			return
		}
		if w.isWhole {
			s.delays.bytes.Add(int64(len(lines)))
		}
	}
}

func appendEvent(lines []byte, revision int64) []byte {
	return fmt.Appendf(lines, `{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",`+
		`"metadata":{"resourceVersion":"%d"},"columnDefinitions":null,"rows":[{"cells":["web-7d4b9c5f6-%d","1/1",`+
		`"Running","0","0s","10.244.1.17","node-1","\u003cnone\u003e","\u003cnone\u003e"],"object":null}]}}`+"\n",
		revision, revision)
}

func appendBookmark(lines []byte, revision int64) []byte {
	return fmt.Appendf(lines, `{"type":"BOOKMARK","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",`+
		`"metadata":{"resourceVersion":"%d"},"columnDefinitions":null,"rows":[{"cells":[""],"object":null}]}}`+"\n",
		revision)
}

func appendInitialEnd(lines []byte, revision int64) []byte {
	return fmt.Appendf(lines, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",`+
		`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", revision)
}
