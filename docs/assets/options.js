// Without this a line may end between the dashes and the name of --execute.
for (const code of document.querySelectorAll(".md-typeset :not(pre) > code"))
  if (!code.childElementCount) code.innerHTML = code.innerHTML.replace(/--[\w-]+/g, '<span class="whole">$&</span>');
