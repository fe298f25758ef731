// libencore_chat_template.so: Python, started once, running renderer.py.
#include "text/chat_template/library.h"

#include <dlfcn.h>
#include <pybind11/embed.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "renderer_source.h"

namespace py = pybind11;

namespace encore {

struct LibraryTemplate {
  py::object renderer;
};

namespace {

void fail(const LibrarySink* sink, const std::string& message) {
  sink->failed(sink->context, {message.data(), message.size()});
}

py::str as_str(LibraryText text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.size), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

// Python's own extension modules expect its symbols in the global scope; this library is loaded
// with local scope.
void publish_python_symbols() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&Py_IsInitialized), &info) == 0) return;
  (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

// Python looks for its library beside the first python3 of PATH, which may be a virtual
// environment's, without Jinja2. So it is told which one this library was built with, if that is
// there.
PyStatus name_program(PyConfig& config) {
  constexpr const char* kProgram = ENCORE_PYTHON_PROGRAM;
  if (::access(kProgram, X_OK) != 0) return PyStatus_Ok();
  return PyConfig_SetBytesString(&config, &config.program_name, kProgram);
}

// Starts Python unless the process has it: isolated from the user's environment, without signal
// handlers. It is never stopped.
void start_python() {
  if (Py_IsInitialized() != 0) return;
  publish_python_symbols();
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  PyStatus status = name_program(config);
  if (PyStatus_Exception(status) == 0) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0) {
    throw std::runtime_error(status.err_msg != nullptr ? status.err_msg : "Python did not start");
  }
  PyEval_SaveThread();  // whoever calls next takes the lock
}

// raise_in_thread(thread, exception type)
PyObject* raise_in_thread(PyObject* /*module*/, PyObject* arguments) {
  unsigned long thread = 0;
  PyObject* what = nullptr;
  if (PyArg_ParseTuple(arguments, "kO", &thread, &what) == 0) return nullptr;
  PyThreadState_SetAsyncExc(thread, what);
  Py_RETURN_NONE;
}

// The module renderer.py, loaded on first use. REQUIRES: the interpreter's lock.
py::module_& renderer_module() {
  static py::module_* module = nullptr;  // lives as long as Python, which is never stopped
  if (module == nullptr) {
    const auto types = py::module_::import("types");
    py::module_ fresh = types.attr("ModuleType")("encore_chat_template");
    const py::object builtins = py::module_::import("builtins");
    const py::object code = builtins.attr("compile")(kRendererSource, "renderer.py", "exec");
    fresh.attr("__dict__")["__builtins__"] = builtins;
    static PyMethodDef raise = {"raise_in_thread", raise_in_thread, METH_VARARGS, nullptr};
    fresh.attr("raise_in_thread") =
        py::reinterpret_steal<py::object>(PyCFunction_New(&raise, nullptr));
    builtins.attr("exec")(code, fresh.attr("__dict__"));
    module = new py::module_(std::move(fresh));
  }
  return *module;
}

void ensure_python() {
  static std::once_flag once;
  std::call_once(once, start_python);
}

LibraryTemplate* create(LibraryText source, LibraryText special_json, LibraryText control_json,
                        double seconds, const LibrarySink* sink) {
  try {
    ensure_python();
    const py::gil_scoped_acquire lock;
    try {
      const py::tuple made = renderer_module().attr("create")(as_str(source), as_str(special_json),
                                                              as_str(control_json), seconds);
      if (!made[0].is_none()) return new LibraryTemplate{made[0]};
      fail(sink, made[1].cast<std::string>());
    } catch (const py::error_already_set& e) {
      fail(sink, std::string("Python with jinja2 (Debian: python3-jinja2) failed: ") + e.what());
    }
  } catch (const std::exception& e) {
    fail(sink, e.what());
  }
  return nullptr;
}

void render(LibraryTemplate* self, LibraryText messages_json, LibraryText tools_json,
            int32_t add_generation_prompt, LibraryText variables_json, const LibrarySink* sink) {
  try {
    const py::gil_scoped_acquire lock;
    try {
      const py::tuple done = renderer_module().attr("render")(
          self->renderer, as_str(messages_json), as_str(tools_json), add_generation_prompt != 0,
          as_str(variables_json));
      if (done[0].is_none()) return fail(sink, done[2].cast<std::string>());
      const auto text = done[0].cast<std::string>();
      std::vector<LibraryRange> ranges;
      for (const auto& [begin, end] : done[1].cast<std::vector<std::pair<uint64_t, uint64_t>>>()) {
        ranges.push_back({begin, end});
      }
      sink->rendered(sink->context, {text.data(), text.size()}, ranges.data(), ranges.size());
    } catch (const py::error_already_set& e) {
      fail(sink, std::string("the chat template failed: ") + e.what());
    }
  } catch (const std::exception& e) {
    fail(sink, e.what());
  }
}

void destroy(LibraryTemplate* self) {
  const py::gil_scoped_acquire lock;
  delete self;
}

constexpr LibraryApi kApi = {kLibraryVersion, create, render, destroy};

}  // namespace
}  // namespace encore

extern "C" __attribute__((visibility("default"))) const encore::LibraryApi*
encore_chat_template_entry() {
  return &encore::kApi;
}
