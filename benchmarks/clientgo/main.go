// Command clientgo watches one resource's metadata like a Go controller, and prints the CPU cost per event.
//
//	clientgo --kubeconfig F --resource configmaps --events 20000            the existing objects, then live events
//	clientgo --kubeconfig F --resource configmaps --events 5000 --live      live events only
//
// It prints {"watching":true} when the watch is open, and after the last event one line
// {"events":…,"cpu_seconds":…,"wall_seconds":…,"cpu_us_per_event":…}: user and system time of the whole process since
// just before the request of the watch (burst), or since the first event (live).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
)

type usage struct {
	cpu  time.Duration
	wall time.Time
}

type report struct {
	Events        int     `json:"events"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	WallSeconds   float64 `json:"wall_seconds"`
	CPUUsPerEvent float64 `json:"cpu_us_per_event"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig")
	var gvr schema.GroupVersionResource
	flag.StringVar(&gvr.Group, "group", "", "API group; empty for the core")
	flag.StringVar(&gvr.Version, "version", "v1", "API version")
	flag.StringVar(&gvr.Resource, "resource", "configmaps", "resource, plural")
	namespace := flag.String("namespace", "", "namespace; empty for all")
	events := flag.Int("events", 1, "number of events to count")
	live := flag.Bool("live", false, "skip the existing objects")
	flag.Parse()

	if err := run(*kubeconfig, gvr, *namespace, *events, *live); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, gvr schema.GroupVersionResource, namespace string, events int, live bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := client.Resource(gvr).Namespace(namespace)
	ctx := context.Background()

	options := metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: "0"}
	if live {
		none, err := resource.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=absent--"})
		if err != nil {
			return err
		}
		options.ResourceVersion = none.ResourceVersion
	}
	start := now()
	stream, err := resource.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer stream.Stop()
	fmt.Println(`{"watching":true}`)
	if live {
		if err := count(stream, 1); err != nil {
			return err
		}
		start = now()
	}
	if err := count(stream, events); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(since(start, events))
}

// count reads events until it has seen n changes of objects. Bookmarks do not count.
func count(stream watch.Interface, n int) error {
	for event := range stream.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			n--
		case watch.Error:
			return fmt.Errorf("the watch ended with %v", event.Object)
		}
		if n == 0 {
			return nil
		}
	}
	return fmt.Errorf("the watch closed %d events too early", n)
}

func now() usage {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		panic(err) // cannot fail for RUSAGE_SELF
	}
	return usage{time.Duration(spent.Utime.Nano() + spent.Stime.Nano()), time.Now()}
}

func since(start usage, events int) report {
	end := now()
	cpu, wall := (end.cpu - start.cpu).Seconds(), end.wall.Sub(start.wall).Seconds()
	return report{events, cpu, wall, 1e6 * cpu / float64(events)}
}
